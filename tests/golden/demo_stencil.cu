extern "C" __global__ void __launch_bounds__(256) stencil(const float *__restrict__ u, float *__restrict__ lap, int h, int w)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float u_fetch[18][18];
    if (16 * by + 17 < h && 16 * bx + 17 < w) {
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
            if (16 * u_dim_0_outer + ty < 18) {
                #pragma unroll
                for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                    if (16 * u_dim_1_outer + tx < 18)
                        u_fetch[16 * u_dim_0_outer + ty][16 * u_dim_1_outer + tx] = u[(16 * by + 16 * u_dim_0_outer + ty) * w + 16 * bx + 16 * u_dim_1_outer + tx];  // fetch_u
                }
            }
        }
        __syncthreads();
        lap[(16 * by + ty) * (w - 2) + 16 * bx + tx] = u_fetch[ty][tx + 1] + u_fetch[ty + 2][tx + 1] + u_fetch[ty + 1][tx] + u_fetch[ty + 1][tx + 2] - 4.0f * u_fetch[ty + 1][tx + 1];  // insn
    } else {
        if (16 * by + ty < h && 16 * bx + tx < w) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
                if (16 * u_dim_0_outer + ty < 18 && 16 * by + 16 * u_dim_0_outer + ty < h) {
                    #pragma unroll
                    for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                        if (16 * u_dim_1_outer + tx < 18 && 16 * bx + 16 * u_dim_1_outer + tx < w)
                            u_fetch[16 * u_dim_0_outer + ty][16 * u_dim_1_outer + tx] = u[(16 * by + 16 * u_dim_0_outer + ty) * w + 16 * bx + 16 * u_dim_1_outer + tx];  // fetch_u
                    }
                }
            }
        }
        __syncthreads();
        if (16 * by + ty + 2 < h && 16 * bx + tx + 2 < w)
            lap[(16 * by + ty) * (w - 2) + 16 * bx + tx] = u_fetch[ty][tx + 1] + u_fetch[ty + 2][tx + 1] + u_fetch[ty + 1][tx] + u_fetch[ty + 1][tx + 2] - 4.0f * u_fetch[ty + 1][tx + 1];  // insn
    }
}
