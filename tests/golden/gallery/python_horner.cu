extern "C" __global__ void __launch_bounds__(32) python_horner(const float *__restrict__ c, const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        float value = 0.0f;  // insn
        for (int k = 0; k < 3; ++k)
            value = value * x[32 * bx + tx] + c[2 - k];  // insn_1
        y[32 * bx + tx] = value;  // insn_2
    }
}
