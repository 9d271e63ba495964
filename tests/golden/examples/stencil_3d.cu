// stencil_3d computes
//     for k in [1, m - 1), i in [1, n - 1), j in [1, n - 1)
//         v[k, i, j] = column(k - 1) + column(k + 1) + around - 6*column(k)
// Sizes: u: m x n x n, v: m x n x n
// Launch: stencil_3d, grid ((n + 29) / 32, (n + 5) / 8), block (32, 8)
// Assumes: m >= 3; n >= 3; v overlaps no other array
// Indices have 32 bits: m*n*n, 3*m + 10, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) stencil_3d(
    const float *__restrict__ u,
    float *__restrict__ v,
    int m,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty + 1, j = 32 * bx + tx + 1;
    if (i + 1 < n && j + 1 < n) {
        float queue[3];
        #pragma unroll
        for (int k_inner = 1; k_inner < 3; ++k_inner)
            queue[(k_inner + 2) % 3] = u[(k_inner - 1) * n * n + i * n + j];
        // Full tiles, without tests; the others begin at k_outer_full.
        const int k_outer_full = (m + 1) / 3 - 1;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 3; ++k_inner) {
                const int k = 3 * k_outer + k_inner + 1;
                queue[(k_inner + 2) % 3] = u[(k + 1) * n * n + i * n + j];
                const int offset = k * n * n + i * n + j;
                v[offset] = queue[k_inner]
                    + queue[(k_inner + 2) % 3]
                    + (
                        u[k * n * n + (i - 1) * n + j]
                        + u[k * n * n + (i + 1) * n + j]
                        + u[offset - 1]
                        + u[offset + 1])
                    - 6.0f * queue[(k_inner + 1) % 3];
            }
        }
        for (int k_outer = k_outer_full; k_outer < m / 3; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 3; ++k_inner) {
                const int k = 3 * k_outer + k_inner + 1;
                if (k + 1 < m) {
                    queue[(k_inner + 2) % 3] = u[(k + 1) * n * n + i * n + j];
                    const int offset = k * n * n + i * n + j;
                    v[offset] = queue[k_inner]
                        + queue[(k_inner + 2) % 3]
                        + (
                            u[k * n * n + (i - 1) * n + j]
                            + u[k * n * n + (i + 1) * n + j]
                            + u[offset - 1]
                            + u[offset + 1])
                        - 6.0f * queue[k_inner + 1];
                }
            }
        }
    }
}
