// stencil computes
//     for i in [0, h - 2), j in [0, w - 2)
//         lap[i, j] = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]
//             - 4*u[i + 1, j + 1]
// Sizes: u: h x w, lap: (h - 2) x (w - 2)
// Assumes: h >= 3; w >= 3; lap overlaps no other array
// Indices have 32 bits: h*w, (h - 2)*(w - 2), w + 61, h + 61 must not exceed 2147483647

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifndef POLYLOOP_MIN_INT32
#define POLYLOOP_MIN_INT32
static inline int min_int32(int a, int b) { return a < b ? a : b; }
#endif

void stencil(const float *restrict u, float *restrict lap, int h, int w)
{
    for (int by = 0; by < (h + 13) / 16; ++by) {
        for (int bx = 0; bx < (w + 13) / 16; ++bx) {
            float u_fetch[18][18];
            for (int ty = 0; ty < min_int32(16, h - 16 * by); ++ty) {
                const int i = 16 * by + ty;
                for (int tx = 0; tx < min_int32(16, w - 16 * bx); ++tx) {
                    const int j = 16 * bx + tx;
                    #pragma GCC unroll 2
                    for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
                        if (16 * u_dim_0_outer + ty < 18 && i + 16 * u_dim_0_outer < h) {
                            #pragma GCC unroll 2
                            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                                if (16 * u_dim_1_outer + tx < 18 && j + 16 * u_dim_1_outer < w)
                                    u_fetch[16 * u_dim_0_outer + ty][16 * u_dim_1_outer + tx] =
                                        u[(i + 16 * u_dim_0_outer) * w + j + 16 * u_dim_1_outer];
                            }
                        }
                    }
                }
            }
            for (int ty = 0; ty < min_int32(16, h - 16 * by - 2); ++ty) {
                for (int tx = 0; tx < min_int32(16, w - 16 * bx - 2); ++tx)
                    lap[(16 * by + ty) * (w - 2) + 16 * bx + tx] = u_fetch[ty][tx + 1]
                        + u_fetch[ty + 2][tx + 1]
                        + u_fetch[ty + 1][tx]
                        + u_fetch[ty + 1][tx + 2]
                        - 4.0f * u_fetch[ty + 1][tx + 1];
            }
        }
    }
}
