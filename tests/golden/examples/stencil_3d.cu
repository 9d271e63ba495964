extern "C" __global__ void __launch_bounds__(256) stencil_3d(const float *__restrict__ u, float *__restrict__ v, int m, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty + 1, j = 32 * bx + tx + 1;
    if (i + 1 < n && j + 1 < n) {
        float queue[3];
        #pragma unroll
        for (int k_inner = 1; k_inner < 3; ++k_inner)
            queue[(k_inner + 2) % 3] = u[(k_inner - 1) * n * n + i * n + j];  // compute_column
        const int k_outer_full = (m + 1) / 3 - 1;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 3; ++k_inner) {
                const int k = 3 * k_outer + k_inner + 1;
                queue[(k_inner + 2) % 3] = u[(k + 1) * n * n + i * n + j];  // compute_column
                v[k * n * n + i * n + j] = queue[k_inner] + queue[(k_inner + 2) % 3] + (u[k * n * n + (i - 1) * n + j] + u[k * n * n + (i + 1) * n + j] + u[k * n * n + i * n + j - 1] + u[k * n * n + i * n + j + 1]) - 6.0f * queue[(k_inner + 1) % 3];  // insn
            }
        }
        for (int k_outer = k_outer_full; k_outer < m / 3; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 3; ++k_inner) {
                const int k = 3 * k_outer + k_inner + 1;
                if (k + 1 < m) {
                    queue[(k_inner + 2) % 3] = u[(k + 1) * n * n + i * n + j];  // compute_column
                    v[k * n * n + i * n + j] = queue[k_inner] + queue[(k_inner + 2) % 3] + (u[k * n * n + (i - 1) * n + j] + u[k * n * n + (i + 1) * n + j] + u[k * n * n + i * n + j - 1] + u[k * n * n + i * n + j + 1]) - 6.0f * queue[k_inner + 1];  // insn
                }
            }
        }
    }
}
