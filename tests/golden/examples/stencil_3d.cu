extern "C" __global__ void __launch_bounds__(256) stencil_3d(const float *__restrict__ u, float *__restrict__ v, int m, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float plane_value[10][34];
    if (8 * by + 9 < n && 32 * bx + 33 < n) {
        float below = u[(8 * by + ty + 1) * n + 32 * bx + tx + 1];  // insn
        float here = u[n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1];  // insn_1
        for (int k = 1; k < m - 1; ++k) {
            float above = u[(k + 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1];  // insn_2
            #pragma unroll
            for (int plane_dim_0_outer = 0; plane_dim_0_outer < 2; ++plane_dim_0_outer) {
                if (8 * plane_dim_0_outer + ty < 10) {
                    #pragma unroll
                    for (int plane_dim_1_outer = 0; plane_dim_1_outer < 2; ++plane_dim_1_outer) {
                        if (32 * plane_dim_1_outer + tx < 34)
                            plane_value[8 * plane_dim_0_outer + ty][32 * plane_dim_1_outer + tx] = u[k * n * n + (8 * by + 8 * plane_dim_0_outer + ty) * n + 32 * bx + 32 * plane_dim_1_outer + tx];  // compute_plane
                    }
                }
            }
            __syncthreads();
            v[k * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1] = below + above + (plane_value[ty][tx + 1] + plane_value[ty + 2][tx + 1] + plane_value[ty + 1][tx] + plane_value[ty + 1][tx + 2]) - 6.0f * here;  // insn_3
            below = here;  // insn_4
            here = above;  // insn_5
            __syncthreads();
        }
    } else {
        float below;
        float here;
        if (8 * by + ty + 2 < n && 32 * bx + tx + 2 < n) {
            below = u[(8 * by + ty + 1) * n + 32 * bx + tx + 1];  // insn
            here = u[n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1];  // insn_1
        }
        float above;
        for (int k = 1; k < m - 1; ++k) {
            if (8 * by + ty + 2 < n && 32 * bx + tx + 2 < n)
                above = u[(k + 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1];  // insn_2
            if (8 * by + ty < n && 32 * bx + tx < n) {
                #pragma unroll
                for (int plane_dim_0_outer = 0; plane_dim_0_outer < 2; ++plane_dim_0_outer) {
                    if (8 * plane_dim_0_outer + ty < 10 && 8 * by + 8 * plane_dim_0_outer + ty < n) {
                        #pragma unroll
                        for (int plane_dim_1_outer = 0; plane_dim_1_outer < 2; ++plane_dim_1_outer) {
                            if (32 * plane_dim_1_outer + tx < 34 && 32 * bx + 32 * plane_dim_1_outer + tx < n)
                                plane_value[8 * plane_dim_0_outer + ty][32 * plane_dim_1_outer + tx] = u[k * n * n + (8 * by + 8 * plane_dim_0_outer + ty) * n + 32 * bx + 32 * plane_dim_1_outer + tx];  // compute_plane
                        }
                    }
                }
            }
            __syncthreads();
            if (8 * by + ty + 2 < n && 32 * bx + tx + 2 < n) {
                v[k * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1] = below + above + (plane_value[ty][tx + 1] + plane_value[ty + 2][tx + 1] + plane_value[ty + 1][tx] + plane_value[ty + 1][tx + 2]) - 6.0f * here;  // insn_3
                below = here;  // insn_4
                here = above;  // insn_5
            }
            __syncthreads();
        }
    }
}
