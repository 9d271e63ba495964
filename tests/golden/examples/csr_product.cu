// csr_product computes
//     for i in [0, n)
//         begin = first[i]
//         stop = first[i + 1]
//         y[i] = sum(j, a[j]*x[column[j]]), j in [begin, stop)
// Sizes: first: (n + 1), column: entries, a: entries, x: m, y: n
// Launch: csr_product, grid ((n + 127) / 128), block (128)
// Assumes: entries >= 0; m >= 0; n >= 1; y overlaps no other array
// Indices have 32 bits: n + 1, entries, m, n, n + 255 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) csr_product(
    const int *__restrict__ first,
    const int *__restrict__ column,
    const float *__restrict__ a,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n,
    int entries,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 128 * bx + tx;
    if (i < n) {
        int begin = first[i];
        int stop = first[i + 1];
        float acc = 0.0f;
        for (int j = begin; j < stop; ++j)
            acc += a[j] * x[column[j]];
        y[i] = acc;
    }
}
