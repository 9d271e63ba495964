// random_numbers_by_congruence computes
//     for i in [0, n)
//         state[i] = 6364136223846793005*state[i] + 1442695040888963407
//         x[i] = cast(float32, state[i] >> 40)*5.960464477539063e-08
// Sizes: state: n, x: n
// Launch: random_numbers_by_congruence, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; state, x overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) random_numbers_by_congruence(
    unsigned long long *__restrict__ state,
    float *__restrict__ x,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        state[i] = 6364136223846793005ull * state[i] + 1442695040888963407ull;  // step
        x[i] = (float)(state[i] >> 40u) * 5.9604645e-08f;
    }
}
