extern "C" __global__ void __launch_bounds__(16) python_softmax_of_rows(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float acc = -__int_as_float(0x7f800000);  // insn
        for (int j = 0; j < n; ++j)
            acc = fmaxf(acc, x[i * n + j]);  // insn
        float top = acc;  // insn
        float acc_0 = 0.0f;  // insn_1
        for (int j_1 = 0; j_1 < n; ++j_1)
            acc_0 += expf(x[i * n + j_1] - top);  // insn_1
        float total = acc_0;  // insn_1
        for (int j_2 = 0; j_2 < n; ++j_2)
            y[i * n + j_2] = expf(x[i * n + j_2] - top) / total;  // insn_2
    }
}
