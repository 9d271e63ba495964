// diamond_tiles computes
//     for t in [0, steps), i in [1, n + 1)
//         a[t + 1, i] = a[t, i - 1] + a[t, i] + a[t, i + 1]
// Sizes: a: (steps + 1) x (n + 2)
// Launch: diamond_tiles, grid (1), block (4)
// Assumes: n >= 1; steps >= 0
// Indices have 32 bits: (steps + 1)*(n + 2), n*steps + n + 2*steps + 2,
//     n + 4*steps + 56 must not exceed 2147483647

#ifndef POLYLOOP_FLOORDIV_INT32
#define POLYLOOP_FLOORDIV_INT32
static __device__ __forceinline__ int floordiv_int32(int a, int b)
{
    int q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
#endif

extern "C" __global__ void __launch_bounds__(4) diamond_tiles(int *a, int steps, int n)
{
    const int tx = threadIdx.x;
    if (steps >= 1) {
        for (int row = -1; row < (steps + 1) / 2; ++row) {
            for (int u_outer = max(
                        (row - 2 * tx + 7) / 8,
                        floordiv_int32(4 * row - 4 * tx - steps + 1, 16) + 1);
                    u_outer < min((n + steps - 4 * tx + 15) / 16, (2 * row + n - 4 * tx + 17) / 16);
                    ++u_outer) {
                for (int t = max(
                            max(max(0, 2 * row), 16 * u_outer + 4 * tx - n),
                            4 * row - 16 * u_outer - 4 * tx + 1);
                        t < min(
                            min(min(steps, 2 * row + 4), 16 * u_outer + 4 * tx + 3),
                            4 * row + n - 16 * u_outer - 4 * tx + 4);
                        ++t) {
                    for (int i = max(
                                max(1, 16 * u_outer + 4 * tx - t),
                                16 * u_outer + 4 * tx + t - 4 * row - 3);
                            i < min(
                                min(n + 1, 16 * u_outer + 4 * tx - t + 4),
                                16 * u_outer + 4 * tx + t - 4 * row + 1);
                            ++i)
                        a[(t + 1) * (n + 2) + i] = (unsigned int)a[t * (n + 2) + i - 1]
                            + a[t * (n + 2) + i]
                            + a[t * (n + 2) + i + 1];
                }
            }
            __syncwarp();  // a: writes follow writes
        }
    }
}
