extern "C" __global__ void __launch_bounds__(64) star_in_a_tile_of_three_axes(const float *__restrict__ u, float *__restrict__ v, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    __shared__ float u_fetch[4][6][10];
    if (2 * bz + 1 < n && 4 * by + 3 < n && 8 * bx + 7 < n) {
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (8 * u_dim_2_outer + tx < 10)
                            u_fetch[2 * u_dim_0_outer + tz][4 * u_dim_1_outer + ty][8 * u_dim_2_outer + tx] = u[(2 * bz + 2 * u_dim_0_outer + tz) * (n + 2) * (n + 2) + (4 * by + 4 * u_dim_1_outer + ty) * (n + 2) + 8 * bx + 8 * u_dim_2_outer + tx];  // fetch_u
                    }
                }
            }
        }
        __syncthreads();
        v[(2 * bz + tz) * n * n + (4 * by + ty) * n + 8 * bx + tx] = u_fetch[tz][ty + 1][tx + 1] + u_fetch[tz + 2][ty + 1][tx + 1] + u_fetch[tz + 1][ty][tx + 1] + u_fetch[tz + 1][ty + 2][tx + 1] + u_fetch[tz + 1][ty + 1][tx] + u_fetch[tz + 1][ty + 1][tx + 2] - 6.0f * u_fetch[tz + 1][ty + 1][tx + 1];  // insn
    } else {
        if (4 * by + ty <= n + 1 && 8 * bx + tx <= n + 1) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
                if (2 * bz + 2 * u_dim_0_outer + tz <= n + 1) {
                    #pragma unroll
                    for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                        if (4 * u_dim_1_outer + ty < 6 && 4 * by + 4 * u_dim_1_outer + ty <= n + 1) {
                            #pragma unroll
                            for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                                if (8 * u_dim_2_outer + tx < 10 && 8 * bx + 8 * u_dim_2_outer + tx <= n + 1)
                                    u_fetch[2 * u_dim_0_outer + tz][4 * u_dim_1_outer + ty][8 * u_dim_2_outer + tx] = u[(2 * bz + 2 * u_dim_0_outer + tz) * (n + 2) * (n + 2) + (4 * by + 4 * u_dim_1_outer + ty) * (n + 2) + 8 * bx + 8 * u_dim_2_outer + tx];  // fetch_u
                            }
                        }
                    }
                }
            }
        }
        __syncthreads();
        if (2 * bz + tz < n && 4 * by + ty < n && 8 * bx + tx < n)
            v[(2 * bz + tz) * n * n + (4 * by + ty) * n + 8 * bx + tx] = u_fetch[tz][ty + 1][tx + 1] + u_fetch[tz + 2][ty + 1][tx + 1] + u_fetch[tz + 1][ty][tx + 1] + u_fetch[tz + 1][ty + 2][tx + 1] + u_fetch[tz + 1][ty + 1][tx] + u_fetch[tz + 1][ty + 1][tx + 2] - 6.0f * u_fetch[tz + 1][ty + 1][tx + 1];  // insn
    }
}
