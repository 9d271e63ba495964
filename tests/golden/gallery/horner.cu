extern "C" __global__ void __launch_bounds__(64) horner(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + tx < n) {
        float p = 0.5f * x[64 * bx + tx] + 2.0f;  // insn
        float q = p * x[64 * bx + tx] - 1.0f;  // insn_1
        y[64 * bx + tx] = q * x[64 * bx + tx] + 3.0f;  // insn_2
    }
}
