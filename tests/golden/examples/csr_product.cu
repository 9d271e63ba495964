extern "C" __global__ void __launch_bounds__(128) csr_product(const int *__restrict__ first, const int *__restrict__ column, const float *__restrict__ a, const float *__restrict__ x, float *__restrict__ y, int n, int entries, int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 128 * bx + tx;
    if (i < n) {
        int begin = first[i];  // insn
        int stop = first[i + 1];  // insn_1
        float acc = 0.0f;  // insn_2
        for (int j = begin; j < stop; ++j)
            acc += a[j] * x[column[j]];  // insn_2
        y[i] = acc;  // insn_2
    }
}
