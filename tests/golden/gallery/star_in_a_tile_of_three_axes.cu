// star_in_a_tile_of_three_axes computes
//     for i in [0, n), j in [0, n), k in [0, n)
//         v[i, j, k] = u[i, j + 1, k + 1] + u[i + 2, j + 1, k + 1] + u[i + 1, j, k + 1]
//             + u[i + 1, j + 2, k + 1] + u[i + 1, j + 1, k] + u[i + 1, j + 1, k + 2]
//             - 6*u[i + 1, j + 1, k + 1]
// Sizes: u: (n + 2) x (n + 2) x (n + 2), v: n x n x n
// Launch: star_in_a_tile_of_three_axes, grid ((n + 7) / 8, (n + 3) / 4, (n + 1) / 2),
//     block (8, 4, 2)
// Assumes: n >= 0; v overlaps no other array
// Indices have 32 bits: (n + 2)*(n + 2)*(n + 2), n*n*n, n + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) star_in_a_tile_of_three_axes(
    const float *__restrict__ u,
    float *__restrict__ v,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int i = 2 * bz + tz, j = 4 * by + ty, k = 8 * bx + tx;
    __shared__ float u_fetch[4][6][10];
    if (2 * bz + 1 < n && 4 * by + 3 < n && 8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (8 * u_dim_2_outer + tx < 10)
                            u_fetch[
                                2 * u_dim_0_outer
                                + tz][4 * u_dim_1_outer + ty][8 * u_dim_2_outer + tx] =
                                u[
                                    (i + 2 * u_dim_0_outer) * (n + 2) * (n + 2)
                                    + (j + 4 * u_dim_1_outer) * (n + 2)
                                    + k
                                    + 8 * u_dim_2_outer];
                    }
                }
            }
        }
        __syncthreads();  // u_fetch: reads follow writes
        v[i * n * n + j * n + k] = u_fetch[tz][ty + 1][tx + 1]
            + u_fetch[tz + 2][ty + 1][tx + 1]
            + u_fetch[tz + 1][ty][tx + 1]
            + u_fetch[tz + 1][ty + 2][tx + 1]
            + u_fetch[tz + 1][ty + 1][tx]
            + u_fetch[tz + 1][ty + 1][tx + 2]
            - 6.0f * u_fetch[tz + 1][ty + 1][tx + 1];
    } else {
        if (j <= n + 1 && k <= n + 1) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
                if (i + 2 * u_dim_0_outer <= n + 1) {
                    #pragma unroll
                    for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                        if (4 * u_dim_1_outer + ty < 6 && j + 4 * u_dim_1_outer <= n + 1) {
                            #pragma unroll
                            for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                                if (8 * u_dim_2_outer + tx < 10 && k + 8 * u_dim_2_outer <= n + 1)
                                    u_fetch[
                                        2 * u_dim_0_outer
                                        + tz][4 * u_dim_1_outer + ty][8 * u_dim_2_outer + tx] =
                                        u[
                                            (i + 2 * u_dim_0_outer) * (n + 2) * (n + 2)
                                            + (j + 4 * u_dim_1_outer) * (n + 2)
                                            + k
                                            + 8 * u_dim_2_outer];
                            }
                        }
                    }
                }
            }
        }
        __syncthreads();  // u_fetch: reads follow writes
        if (i < n && j < n && k < n)
            v[i * n * n + j * n + k] = u_fetch[tz][ty + 1][tx + 1]
                + u_fetch[tz + 2][ty + 1][tx + 1]
                + u_fetch[tz + 1][ty][tx + 1]
                + u_fetch[tz + 1][ty + 2][tx + 1]
                + u_fetch[tz + 1][ty + 1][tx]
                + u_fetch[tz + 1][ty + 1][tx + 2]
                - 6.0f * u_fetch[tz + 1][ty + 1][tx + 1];
    }
}
