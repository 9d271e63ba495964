extern "C" __global__ void __launch_bounds__(256) stencil_3d(const float *__restrict__ u, float *__restrict__ v, int m, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (8 * by + ty + 2 < n && 32 * bx + tx + 2 < n) {
        float queue[3];
        #pragma unroll
        for (int k_inner = 1; k_inner < 3; ++k_inner)
            queue[(k_inner + 2) % 3] = u[(k_inner - 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1];  // compute_column
        const int k_outer_full = (m + 1) / 3 - 1;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 3; ++k_inner) {
                queue[(k_inner + 2) % 3] = u[(3 * k_outer + k_inner + 2) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1];  // compute_column
                v[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1] = queue[k_inner] + queue[(k_inner + 2) % 3] + (u[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty) * n + 32 * bx + tx + 1] + u[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty + 2) * n + 32 * bx + tx + 1] + u[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx] + u[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 2]) - 6.0f * queue[(k_inner + 1) % 3];  // insn
            }
        }
        for (int k_outer = k_outer_full; k_outer < m / 3; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 3; ++k_inner) {
                if (3 * k_outer + k_inner + 2 < m) {
                    queue[(k_inner + 2) % 3] = u[(3 * k_outer + k_inner + 2) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1];  // compute_column
                    v[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 1] = queue[k_inner] + queue[(k_inner + 2) % 3] + (u[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty) * n + 32 * bx + tx + 1] + u[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty + 2) * n + 32 * bx + tx + 1] + u[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx] + u[(3 * k_outer + k_inner + 1) * n * n + (8 * by + ty + 1) * n + 32 * bx + tx + 2]) - 6.0f * queue[k_inner + 1];  // insn
                }
            }
        }
    }
}
