// pairs computes
//     for r in [0, n), s in [0, n)
//         g[r, s] = sum(t, x[r, t]*y[s, t]), t in [0, m)
// Sizes: x: n x m, y: n x m, g: n x n
// Launch: pairs, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8)
// Assumes: m >= 0; n >= 0; g overlaps no other array
// Indices have 32 bits: n*m, n*n, 2*m + 14, m + 15, n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) pairs(
    const float *__restrict__ x,
    const float *__restrict__ y,
    float *__restrict__ g,
    int n,
    int m)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = 8 * by + ty, s = 8 * bx + tx;
    __shared__ float x_fetch[8][8];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        // Full tiles, without tests; the others begin at t_outer_full.
        const int t_outer_full = m / 8;
        for (int t_outer = 0; t_outer < t_outer_full; ++t_outer) {
            x_fetch[ty][tx] = x[r * m + 8 * t_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            for (int t_inner = 0; t_inner < 8; ++t_inner)
                acc += x_fetch[ty][t_inner] * y[s * m + 8 * t_outer + t_inner];
            __syncwarp();  // x_fetch: writes follow reads
        }
        for (int t_outer = t_outer_full; t_outer < (m + 7) / 8; ++t_outer) {
            if (8 * t_outer + tx < m)
                x_fetch[ty][tx] = x[r * m + 8 * t_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            for (int t_inner = 0; t_inner < m - 8 * t_outer; ++t_inner)
                acc += x_fetch[ty][t_inner] * y[s * m + 8 * t_outer + t_inner];
            __syncwarp();  // x_fetch: writes follow reads
        }
        g[r * n + s] = acc;
    } else {
        float acc = 0.0f;
        for (int t_outer = 0; t_outer < (m + 7) / 8; ++t_outer) {
            if (r < n && 8 * t_outer + tx < m)
                x_fetch[ty][tx] = x[r * m + 8 * t_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            if (r < n && s < n) {
                for (int t_inner = 0; t_inner < min(8, m - 8 * t_outer); ++t_inner)
                    acc += x_fetch[ty][t_inner] * y[s * m + 8 * t_outer + t_inner];
            }
            __syncwarp();  // x_fetch: writes follow reads
        }
        if (r < n && s < n)
            g[r * n + s] = acc;
    }
}
