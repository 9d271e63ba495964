// slope_limiter computes
//     for s in [0, 3)
//         for i in [0, n)
//             slope[s, i] = minmod(step(s, i), step(s, i + 1))
//         steepest[s] = max(max(j, fabs(minmod(step(s, j), step(s, j + 1)))), 0), j in [0, n)
// Sizes: u: 3 x (n + 2), slope: 3 x n, steepest: 3
// Launch: slope_limiter, grid (max((n + 15) / 16, 1)), block (16)
// Assumes: n >= 0; slope, steepest overlap no other array
// Indices have 32 bits: 3*(n + 2), 3*n, n + 32 must not exceed 2147483647

#ifndef POLYLOOP_MINMOD_052ECF91
#define POLYLOOP_MINMOD_052ECF91
static __device__ float minmod_float(float a, float b)
{
    if (!(a * b > 0))
        return 0;
    return fabs(a) < fabs(b) ? a : b;
}
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern "C" __global__ void __launch_bounds__(16) slope_limiter(
    const float *__restrict__ u,
    float *__restrict__ slope,
    float *__restrict__ steepest,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    for (int s = 0; s < 3; ++s) {
        if (i < n) {
            const int u_offset = s * (n + 2) + i;
            slope[s * n + i] =
                minmod_float(u[u_offset + 1] - u[u_offset], u[u_offset + 2] - u[u_offset + 1]);
        }
        float acc = -INFINITY;
        for (int j = 0; j < n; ++j) {
            const int u_offset = s * (n + 2) + j;
            acc = fmaxf(
                acc,
                fabsf(
                    minmod_float(
                        u[u_offset + 1] - u[u_offset], u[u_offset + 2] - u[u_offset + 1])));
        }
        if (bx == 0 && tx == 0)
            steepest[s] = fmaxf(acc, 0.0f);
    }
}
