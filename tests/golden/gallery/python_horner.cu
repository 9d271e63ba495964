extern "C" __global__ void __launch_bounds__(32) python_horner(const float *__restrict__ c, const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float value = 0.0f;  // insn
        for (int k = 0; k < 3; ++k)
            value = value * x[i] + c[2 - k];  // insn_1
        y[i] = value;  // insn_2
    }
}
