// stencil_with_an_output_tile computes
//     for i in [0, n), j in [0, n)
//         v[i, j] = u[i, j + 1] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 1, j + 2]
//             - 4*u[i + 1, j + 1]
// Sizes: u: (n + 2) x (n + 2), v: n x n
// Launch: stencil_with_an_output_tile, grid ((n + 7) / 8, (n + 7) / 8), block (8, 4)
// Assumes: n >= 0; v overlaps no other array
// Indices have 32 bits: (n + 2)*(n + 2), n*n, n + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) stencil_with_an_output_tile(
    const float *__restrict__ u,
    float *__restrict__ v,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int j = 8 * bx + tx;
    __shared__ float u_fetch[10][10];
    __shared__ float v_buf[8][8];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 3; ++u_dim_0_outer) {
            const int position = 4 * u_dim_0_outer + ty;
            if (position < 10) {
                #pragma unroll
                for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                    if (8 * u_dim_1_outer + tx < 10)
                        u_fetch[position][8 * u_dim_1_outer + tx] =
                            u[(8 * by + position) * (n + 2) + j + 8 * u_dim_1_outer];
                }
            }
        }
        __syncwarp();  // u_fetch: reads follow writes
        for (int i_inner_outer = 0; i_inner_outer < 2; ++i_inner_outer) {
            const int offset = 4 * i_inner_outer + ty;
            v_buf[offset][tx] = u_fetch[offset][tx + 1]
                + u_fetch[offset + 2][tx + 1]
                + u_fetch[offset + 1][tx]
                + u_fetch[offset + 1][tx + 2]
                - 4.0f * u_fetch[offset + 1][tx + 1];
        }
        #pragma unroll
        for (int v_buf_store_0_outer = 0; v_buf_store_0_outer < 2; ++v_buf_store_0_outer)
            v[(8 * by + 4 * v_buf_store_0_outer + ty) * n + j] =
                v_buf[4 * v_buf_store_0_outer + ty][tx];
    } else {
        if (8 * by + ty <= n + 1 && j <= n + 1) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 3; ++u_dim_0_outer) {
                const int position = 4 * u_dim_0_outer + ty;
                if (position < 10 && 8 * by + 4 * u_dim_0_outer + ty <= n + 1) {
                    #pragma unroll
                    for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                        if (8 * u_dim_1_outer + tx < 10 && j + 8 * u_dim_1_outer <= n + 1)
                            u_fetch[position][8 * u_dim_1_outer + tx] =
                                u[(8 * by + position) * (n + 2) + j + 8 * u_dim_1_outer];
                    }
                }
            }
        }
        __syncwarp();  // u_fetch: reads follow writes
        if (j < n) {
            for (int i_inner_outer = 0;
                    i_inner_outer < min(2, (n - ty + 3) / 4 - 2 * by);
                    ++i_inner_outer) {
                const int offset = 4 * i_inner_outer + ty;
                v_buf[offset][tx] = u_fetch[offset][tx + 1]
                    + u_fetch[offset + 2][tx + 1]
                    + u_fetch[offset + 1][tx]
                    + u_fetch[offset + 1][tx + 2]
                    - 4.0f * u_fetch[offset + 1][tx + 1];
            }
        }
        if (8 * by + ty < n && j < n) {
            #pragma unroll
            for (int v_buf_store_0_outer = 0; v_buf_store_0_outer < 2; ++v_buf_store_0_outer) {
                const int v_index = 8 * by + 4 * v_buf_store_0_outer + ty;
                if (v_index < n)
                    v[v_index * n + j] = v_buf[4 * v_buf_store_0_outer + ty][tx];
            }
        }
    }
}
