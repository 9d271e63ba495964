extern "C" __global__ void __launch_bounds__(32) stencil_with_an_output_tile(const float *__restrict__ u, float *__restrict__ v, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int j = 8 * bx + tx;
    __shared__ float u_fetch[10][10];
    __shared__ float v_buf[8][8];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 3; ++u_dim_0_outer) {
            if (4 * u_dim_0_outer + ty < 10) {
                #pragma unroll
                for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                    if (8 * u_dim_1_outer + tx < 10)
                        u_fetch[4 * u_dim_0_outer + ty][8 * u_dim_1_outer + tx] = u[(8 * by + 4 * u_dim_0_outer + ty) * (n + 2) + j + 8 * u_dim_1_outer];  // fetch_u
                }
            }
        }
        __syncwarp();
        for (int i_inner_outer = 0; i_inner_outer < 2; ++i_inner_outer)
            v_buf[4 * i_inner_outer + ty][tx] = u_fetch[4 * i_inner_outer + ty][tx + 1] + u_fetch[4 * i_inner_outer + ty + 2][tx + 1] + u_fetch[4 * i_inner_outer + ty + 1][tx] + u_fetch[4 * i_inner_outer + ty + 1][tx + 2] - 4.0f * u_fetch[4 * i_inner_outer + ty + 1][tx + 1];  // insn
        #pragma unroll
        for (int v_buf_store_0_outer = 0; v_buf_store_0_outer < 2; ++v_buf_store_0_outer)
            v[(8 * by + 4 * v_buf_store_0_outer + ty) * n + j] = v_buf[4 * v_buf_store_0_outer + ty][tx];  // store_v_buf
    } else {
        if (8 * by + ty <= n + 1 && j <= n + 1) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 3; ++u_dim_0_outer) {
                if (4 * u_dim_0_outer + ty < 10 && 8 * by + 4 * u_dim_0_outer + ty <= n + 1) {
                    #pragma unroll
                    for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                        if (8 * u_dim_1_outer + tx < 10 && j + 8 * u_dim_1_outer <= n + 1)
                            u_fetch[4 * u_dim_0_outer + ty][8 * u_dim_1_outer + tx] = u[(8 * by + 4 * u_dim_0_outer + ty) * (n + 2) + j + 8 * u_dim_1_outer];  // fetch_u
                    }
                }
            }
        }
        __syncwarp();
        if (j < n) {
            for (int i_inner_outer = 0; i_inner_outer < min(2, (n - ty + 3) / 4 - 2 * by); ++i_inner_outer)
                v_buf[4 * i_inner_outer + ty][tx] = u_fetch[4 * i_inner_outer + ty][tx + 1] + u_fetch[4 * i_inner_outer + ty + 2][tx + 1] + u_fetch[4 * i_inner_outer + ty + 1][tx] + u_fetch[4 * i_inner_outer + ty + 1][tx + 2] - 4.0f * u_fetch[4 * i_inner_outer + ty + 1][tx + 1];  // insn
        }
        if (8 * by + ty < n && j < n) {
            #pragma unroll
            for (int v_buf_store_0_outer = 0; v_buf_store_0_outer < 2; ++v_buf_store_0_outer) {
                if (8 * by + 4 * v_buf_store_0_outer + ty < n)
                    v[(8 * by + 4 * v_buf_store_0_outer + ty) * n + j] = v_buf[4 * v_buf_store_0_outer + ty][tx];  // store_v_buf
            }
        }
    }
}
