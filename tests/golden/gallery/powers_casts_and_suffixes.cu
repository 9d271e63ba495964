extern "C" __global__ void __launch_bounds__(32) powers_casts_and_suffixes(const float *__restrict__ x, float *__restrict__ y, int *__restrict__ whole, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        y[32 * bx + tx] = x[32 * bx + tx] * x[32 * bx + tx] * x[32 * bx + tx] - 2.0f * (x[32 * bx + tx] * x[32 * bx + tx]) + 1.0f * (1.0f / (x[32 * bx + tx] * x[32 * bx + tx])) + powf(x[32 * bx + tx], 0.5f);  // insn
        whole[32 * bx + tx] = (int)(10.0f * x[32 * bx + tx]);  // insn_1
    }
}
