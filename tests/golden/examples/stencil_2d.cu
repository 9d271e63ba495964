// stencil_2d computes
//     for i in [1, m - 1), j in [1, n - 1)
//         v[i, j] = u[i, j] + k*(u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4*u[i, j])
// Sizes: u: m x n, v: m x n
// Launch: stencil_2d, grid ((n + 29) / 32, (m + 5) / 8), block (32, 8)
// Assumes: m >= 3; n >= 3; v overlaps no other array
// Indices have 32 bits: m*n, n + 126, m + 30 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) stencil_2d(
    const float *__restrict__ u,
    float *__restrict__ v,
    float k,
    int m,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty + 1, j = 32 * bx + tx + 1;
    __shared__ float u_fetch[10][34];
    if (8 * by + 9 < m && 32 * bx + 33 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
            if (8 * u_dim_0_outer + ty < 10) {
                #pragma unroll
                for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                    if (32 * u_dim_1_outer + tx < 34)
                        u_fetch[8 * u_dim_0_outer + ty][32 * u_dim_1_outer + tx] =
                            u[(i + 8 * u_dim_0_outer - 1) * n + j + 32 * u_dim_1_outer - 1];
                }
            }
        }
        __syncthreads();  // u_fetch: reads follow writes
        v[i * n + j] = u_fetch[ty + 1][tx + 1]
            + k * (
                u_fetch[ty][tx + 1]
                + u_fetch[ty + 2][tx + 1]
                + u_fetch[ty + 1][tx]
                + u_fetch[ty + 1][tx + 2]
                - 4.0f * u_fetch[ty + 1][tx + 1]);
    } else {
        if (i <= m && j <= n) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
                if (8 * u_dim_0_outer + ty < 10 && i + 8 * u_dim_0_outer <= m) {
                    #pragma unroll
                    for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                        if (32 * u_dim_1_outer + tx < 34 && j + 32 * u_dim_1_outer <= n)
                            u_fetch[8 * u_dim_0_outer + ty][32 * u_dim_1_outer + tx] =
                                u[(i + 8 * u_dim_0_outer - 1) * n + j + 32 * u_dim_1_outer - 1];
                    }
                }
            }
        }
        __syncthreads();  // u_fetch: reads follow writes
        if (i + 1 < m && j + 1 < n)
            v[i * n + j] = u_fetch[ty + 1][tx + 1]
                + k * (
                    u_fetch[ty][tx + 1]
                    + u_fetch[ty + 2][tx + 1]
                    + u_fetch[ty + 1][tx]
                    + u_fetch[ty + 1][tx + 2]
                    - 4.0f * u_fetch[ty + 1][tx + 1]);
    }
}
