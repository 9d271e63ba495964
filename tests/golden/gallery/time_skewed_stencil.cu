// time_skewed_stencil computes
//     for t in [0, steps), i in [1, n + 1)
//         a[t + 1, i] = a[t, i - 1] + a[t, i] + a[t, i + 1]
// Sizes: a: (steps + 1) x (n + 2)
// Launch: time_skewed_stencil, grid (1), block (1)
// Assumes: n >= 1; steps >= 0
// Indices have 32 bits: (steps + 1)*(n + 2), n*steps + n + 2*steps + 2, n + 2*steps + 7,
//     n + steps + 22 must not exceed 2147483647

extern "C" __global__ void time_skewed_stencil(int *__restrict__ a, int steps, int n)
{
    // Full tiles, without tests; the others begin at t_outer_full.
    const int t_outer_full = steps / 4;
    for (int t_outer = 0; t_outer < t_outer_full; ++t_outer) {
        // Full tiles, without tests; the others begin at i_outer_full.
        const int i_outer_full = (4 * t_outer + n + 1) / 8;
        for (int i_outer = t_outer / 2; i_outer < i_outer_full; ++i_outer) {
            for (int t_inner = 0; t_inner < min(4, 8 * i_outer - 4 * t_outer + 7); ++t_inner) {
                const int t = 4 * t_outer + t_inner;
                for (int i_inner = max(0, 4 * t_outer + t_inner - 8 * i_outer + 1);
                        i_inner < 8;
                        ++i_inner) {
                    const int i = 8 * i_outer + i_inner - 4 * t_outer - t_inner;
                    a[(t + 1) * (n + 2) + i] = (unsigned int)a[t * (n + 2) + i - 1]
                        + a[t * (n + 2) + i]
                        + a[t * (n + 2) + i + 1];
                }
            }
        }
        for (int i_outer = i_outer_full; i_outer < (4 * t_outer + n + 3) / 8 + 1; ++i_outer) {
            for (int t_inner = max(0, 8 * i_outer - 4 * t_outer - n);
                    t_inner < min(4, 8 * i_outer - 4 * t_outer + 7);
                    ++t_inner) {
                const int t = 4 * t_outer + t_inner;
                for (int i_inner = max(0, 4 * t_outer + t_inner - 8 * i_outer + 1);
                        i_inner < min(8, 4 * t_outer + n + t_inner - 8 * i_outer + 1);
                        ++i_inner) {
                    const int i = 8 * i_outer + i_inner - 4 * t_outer - t_inner;
                    a[(t + 1) * (n + 2) + i] = (unsigned int)a[t * (n + 2) + i - 1]
                        + a[t * (n + 2) + i]
                        + a[t * (n + 2) + i + 1];
                }
            }
        }
    }
    for (int t_outer = t_outer_full; t_outer < (steps + 3) / 4; ++t_outer) {
        for (int i_outer = t_outer / 2; i_outer < (n + steps + 7) / 8; ++i_outer) {
            for (int t_inner = max(0, 8 * i_outer - 4 * t_outer - n);
                    t_inner < min(steps - 4 * t_outer, 8 * i_outer - 4 * t_outer + 7);
                    ++t_inner) {
                const int t = 4 * t_outer + t_inner;
                for (int i_inner = max(0, 4 * t_outer + t_inner - 8 * i_outer + 1);
                        i_inner < min(8, 4 * t_outer + n + t_inner - 8 * i_outer + 1);
                        ++i_inner) {
                    const int i = 8 * i_outer + i_inner - 4 * t_outer - t_inner;
                    a[(t + 1) * (n + 2) + i] = (unsigned int)a[t * (n + 2) + i - 1]
                        + a[t * (n + 2) + i]
                        + a[t * (n + 2) + i + 1];
                }
            }
        }
    }
}
