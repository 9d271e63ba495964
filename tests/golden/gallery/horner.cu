extern "C" __global__ void __launch_bounds__(64) horner(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (i < n) {
        float p = 0.5f * x[i] + 2.0f;  // insn
        float q = p * x[i] - 1.0f;  // insn_1
        y[i] = q * x[i] + 3.0f;  // insn_2
    }
}
