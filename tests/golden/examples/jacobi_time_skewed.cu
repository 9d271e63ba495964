// jacobi_time_skewed computes
//     for b in [0, rods), t in [0, steps), i in [1, n - 1)
//         u[b, (t + 1) % 2, i] = (u[b, t % 2, i - 1] + u[b, t % 2, i] + u[b, t % 2, i + 1])/3
// Sizes: u: rods x 2 x n
// Launch: jacobi_time_skewed, grid (rods), block (128)
// Assumes: n >= 3; rods >= 1; steps >= 1
// Indices have 32 bits: 2*rods*n, n + 2*steps + 254, n + steps + 269 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) jacobi_time_skewed(
    float *u,
    int rods,
    int n,
    int steps)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    // Full tiles, without tests; the others begin at t_outer_full.
    const int t_outer_full = steps / 8;
    for (int t_outer = 0; t_outer < t_outer_full; ++t_outer) {
        // Full tiles, without tests; the others begin at s_outer_full.
        const int s_outer_full = (8 * t_outer + n + 127) / 128 - 1;
        for (int s_outer = t_outer / 16; s_outer < s_outer_full; ++s_outer) {
            for (int t_inner = 0; t_inner < min(8, 128 * s_outer - 8 * t_outer + 127); ++t_inner) {
                const int i = 128 * s_outer + tx - 8 * t_outer - t_inner;
                if (i >= 1) {
                    const int u_offset = bx * 2 * n + t_inner % 2 * n + i;
                    u[bx * 2 * n + (t_inner + 1) % 2 * n + i] =
                        (u[u_offset - 1] + u[u_offset] + u[u_offset + 1]) / 3.0f;
                }
                __syncthreads();  // u: writes follow writes
            }
        }
        for (int s_outer = s_outer_full; s_outer < (8 * t_outer + n + 5) / 128 + 1; ++s_outer) {
            for (int t_inner = max(0, 128 * s_outer - 8 * t_outer - n + 2);
                    t_inner < min(8, 128 * s_outer - 8 * t_outer + 127);
                    ++t_inner) {
                const int i = 128 * s_outer + tx - 8 * t_outer - t_inner;
                if (i >= 1 && i + 1 < n) {
                    const int u_offset = bx * 2 * n + t_inner % 2 * n + i;
                    u[bx * 2 * n + (t_inner + 1) % 2 * n + i] =
                        (u[u_offset - 1] + u[u_offset] + u[u_offset + 1]) / 3.0f;
                }
                __syncthreads();  // u: writes follow writes
            }
        }
    }
    for (int t_outer = t_outer_full; t_outer < (steps + 7) / 8; ++t_outer) {
        for (int s_outer = t_outer / 16; s_outer < (n + steps + 125) / 128; ++s_outer) {
            for (int t_inner = max(0, 128 * s_outer - 8 * t_outer - n + 2);
                    t_inner < min(steps - 8 * t_outer, 128 * s_outer - 8 * t_outer + 127);
                    ++t_inner) {
                const int i = 128 * s_outer + tx - 8 * t_outer - t_inner;
                if (i >= 1 && i + 1 < n) {
                    const int u_offset = bx * 2 * n + t_inner % 2 * n + i;
                    u[bx * 2 * n + (t_inner + 1) % 2 * n + i] =
                        (u[u_offset - 1] + u[u_offset] + u[u_offset + 1]) / 3.0f;
                }
                __syncthreads();  // u: writes follow writes
            }
        }
    }
}
