extern "C" __global__ void __launch_bounds__(128) csr_product(const int *__restrict__ rowptr, const float *__restrict__ values, const int *__restrict__ col, const float *__restrict__ x, float *__restrict__ y, int n, int nnz, int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 128 * bx + tx;
    if (i < n) {
        int begin = rowptr[i];  // insn
        int stop = rowptr[i + 1];  // insn_1
        float acc = 0.0f;  // insn_2
        for (int j = begin; j < stop; ++j)
            acc += values[j] * x[col[j]];  // insn_2
        y[i] = acc;  // insn_2
    }
}
