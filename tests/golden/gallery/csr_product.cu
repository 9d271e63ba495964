// csr_product computes
//     for i in [0, n)
//         begin = rowptr[i]
//         stop = rowptr[i + 1]
//         y[i] = sum(j, values[j]*x[col[j]]), j in [begin, stop)
// Sizes: rowptr: (n + 1), values: nnz, col: nnz, x: m, y: n
// Launch: csr_product, grid ((n + 127) / 128), block (128)
// Assumes: m >= 0; n >= 0; nnz >= 0; y overlaps no other array
// Indices have 32 bits: n + 1, nnz, m, n, n + 255 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) csr_product(
    const int *__restrict__ rowptr,
    const float *__restrict__ values,
    const int *__restrict__ col,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n,
    int nnz,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 128 * bx + tx;
    if (i < n) {
        int begin = rowptr[i];
        int stop = rowptr[i + 1];
        float acc = 0.0f;
        for (int j = begin; j < stop; ++j)
            acc += values[j] * x[col[j]];
        y[i] = acc;
    }
}
