// clamped_stencil computes
//     for i in [0, n), j in [0, m)
//         b[i, j] = if(j > 0, a[i, j - 1], a[i, j]) - 2*a[i, j]
//             + if(j == m - 1, a[i, j], a[i, j + 1])
// Sizes: a: n x m, b: n x m
// Launch: clamped_stencil, grid ((m + 7) / 8, (n + 3) / 4), block (8, 4)
// Assumes: m >= 0; n >= 0; b overlaps no other array
// Indices have 32 bits: n*m, m + 31, n + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) clamped_stencil(
    const float *__restrict__ a,
    float *__restrict__ b,
    int m,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 4 * by + ty, j = 8 * bx + tx;
    __shared__ float a_fetch[4][10];
    if (4 * by + 3 < n && bx >= 1 && 8 * bx + 8 < m) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_1_outer = 0; a_dim_1_outer < 2; ++a_dim_1_outer) {
            if (8 * a_dim_1_outer + tx < 10)
                a_fetch[ty][8 * a_dim_1_outer + tx] = a[i * m + j + 8 * a_dim_1_outer - 1];
        }
        __syncwarp();  // a_fetch: reads follow writes
        b[i * m + j] = a_fetch[ty][tx] - 2.0f * a_fetch[ty][tx + 1] + a_fetch[ty][tx + 2];
    } else {
        if (i < n && j <= m) {
            #pragma unroll
            for (int a_dim_1_outer = 0; a_dim_1_outer < 2; ++a_dim_1_outer) {
                if (8 * a_dim_1_outer + tx < 10
                        && j + 8 * a_dim_1_outer >= 1
                        && j + 8 * a_dim_1_outer <= m)
                    a_fetch[ty][8 * a_dim_1_outer + tx] = a[i * m + j + 8 * a_dim_1_outer - 1];
            }
        }
        __syncwarp();  // a_fetch: reads follow writes
        if (i < n && j < m)
            b[i * m + j] = (j > 0 ? a_fetch[ty][tx] : a_fetch[ty][tx + 1])
                - 2.0f * a_fetch[ty][tx + 1]
                + (j == m - 1 ? a_fetch[ty][tx + 1] : a_fetch[ty][tx + 2]);
    }
}
