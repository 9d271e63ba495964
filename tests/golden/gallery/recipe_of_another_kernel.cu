extern "C" __global__ void __launch_bounds__(64) pairs(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ g, int n, int m)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = 8 * by + ty, s = 8 * bx + tx;
    __shared__ float x_fetch[8][8];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        float acc = 0.0f;  // insn
        const int t_outer_full = m / 8;
        for (int t_outer = 0; t_outer < t_outer_full; ++t_outer) {
            x_fetch[ty][tx] = x[r * m + 8 * t_outer + tx];  // fetch_x
            __syncwarp();
            for (int t_inner = 0; t_inner < 8; ++t_inner)
                acc += x_fetch[ty][t_inner] * y[s * m + 8 * t_outer + t_inner];  // insn
            __syncwarp();
        }
        for (int t_outer = t_outer_full; t_outer < (m + 7) / 8; ++t_outer) {
            if (8 * t_outer + tx < m)
                x_fetch[ty][tx] = x[r * m + 8 * t_outer + tx];  // fetch_x
            __syncwarp();
            for (int t_inner = 0; t_inner < m - 8 * t_outer; ++t_inner)
                acc += x_fetch[ty][t_inner] * y[s * m + 8 * t_outer + t_inner];  // insn
            __syncwarp();
        }
        g[r * n + s] = acc;  // insn
    } else {
        float acc = 0.0f;  // insn
        for (int t_outer = 0; t_outer < (m + 7) / 8; ++t_outer) {
            if (r < n && 8 * t_outer + tx < m)
                x_fetch[ty][tx] = x[r * m + 8 * t_outer + tx];  // fetch_x
            __syncwarp();
            if (r < n && s < n) {
                for (int t_inner = 0; t_inner < min(8, m - 8 * t_outer); ++t_inner)
                    acc += x_fetch[ty][t_inner] * y[s * m + 8 * t_outer + t_inner];  // insn
            }
            __syncwarp();
        }
        if (r < n && s < n)
            g[r * n + s] = acc;  // insn
    }
}
