extern "C" __global__ void __launch_bounds__(4) three(float *__restrict__ both, const float *b_c, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 4 * bx + tx;
    if (i < n) {
        float t = both[i] * (2.0f * b_c[i * 5 + 1]);  // insn
        both[i + n] = t + b_c[i * 5 + 2];  // insn_1
    }
}
