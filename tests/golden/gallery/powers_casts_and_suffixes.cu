extern "C" __global__ void __launch_bounds__(32) powers_casts_and_suffixes(const float *__restrict__ x, float *__restrict__ y, int *__restrict__ whole, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        y[i] = x[i] * x[i] * x[i] - 2.0f * (x[i] * x[i]) + 1.0f * (1.0f / (x[i] * x[i])) + powf(x[i], 0.5f);  // insn
        whole[i] = (int)(10.0f * x[i]);  // insn_1
    }
}
