extern "C" __global__ void __launch_bounds__(32) random_numbers_by_congruence(unsigned long long *__restrict__ state, float *__restrict__ x, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        state[i] = 6364136223846793005ull * state[i] + 1442695040888963407ull;  // step
        x[i] = (float)(state[i] >> 40u) * 5.9604645e-08f;  // insn
    }
}
