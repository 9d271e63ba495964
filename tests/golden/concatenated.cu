extern "C" __global__ void __launch_bounds__(4) three(float *__restrict__ both, const float *b_c, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (4 * bx + tx < n) {
        float t = both[4 * bx + tx] * (2.0f * b_c[(4 * bx + tx) * 5 + 1]);  // insn
        both[4 * bx + n + tx] = t + b_c[(4 * bx + tx) * 5 + 2];  // insn_1
    }
}
