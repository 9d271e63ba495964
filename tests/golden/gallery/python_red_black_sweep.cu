// python_red_black_sweep computes
//     for i in [1, n + 1) by 2
//         u[i] = 0.5*(u[i - 1] + u[i + 1])
//     for i_1 in [2, n + 1) by 2
//         u[i_1] = 0.5*(u[i_1 - 1] + u[i_1 + 1])
// Sizes: u: (n + 2)
// Launch: python_red_black_sweep, grid (1), block (1)
// Assumes: n + 2 >= 0
// Indices have 32 bits: n + 2, abs(n) + 2 must not exceed 2147483647

extern "C" __global__ void python_red_black_sweep(float *__restrict__ u, int n)
{
    for (int i = 1; i <= n; i += 2)
        u[i] = 0.5f * (u[i - 1] + u[i + 1]);
    for (int i_1 = 2; i_1 <= n; i_1 += 2)
        u[i_1] = 0.5f * (u[i_1 - 1] + u[i_1 + 1]);
}
