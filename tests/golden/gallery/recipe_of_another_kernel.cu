extern "C" __global__ void __launch_bounds__(64) pairs(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ g, int n, int m)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float x_fetch[8][8];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        if (m >= 1) {
            float acc = 0.0f;  // insn
            const int t_outer_full = m / 8;
            for (int t_outer = 0; t_outer < t_outer_full; ++t_outer) {
                x_fetch[ty][tx] = x[(8 * by + ty) * m + 8 * t_outer + tx];  // fetch_x
                __syncwarp();
                for (int t_inner = 0; t_inner < 8; ++t_inner)
                    acc += x_fetch[ty][t_inner] * y[(8 * bx + tx) * m + 8 * t_outer + t_inner];  // insn
                __syncwarp();
            }
            for (int t_outer = t_outer_full; t_outer < (m + 7) / 8; ++t_outer) {
                if (8 * t_outer + tx < m)
                    x_fetch[ty][tx] = x[(8 * by + ty) * m + 8 * t_outer + tx];  // fetch_x
                __syncwarp();
                for (int t_inner = 0; t_inner < m - 8 * t_outer; ++t_inner)
                    acc += x_fetch[ty][t_inner] * y[(8 * bx + tx) * m + 8 * t_outer + t_inner];  // insn
                __syncwarp();
            }
            g[(8 * by + ty) * n + 8 * bx + tx] = acc;  // insn
        }
    } else if (m >= 1) {
        float acc = 0.0f;  // insn
        for (int t_outer = 0; t_outer < (m + 7) / 8; ++t_outer) {
            if (8 * by + ty < n && 8 * t_outer + tx < m)
                x_fetch[ty][tx] = x[(8 * by + ty) * m + 8 * t_outer + tx];  // fetch_x
            __syncwarp();
            if (8 * by + ty < n && 8 * bx + tx < n) {
                for (int t_inner = 0; t_inner < min(8, m - 8 * t_outer); ++t_inner)
                    acc += x_fetch[ty][t_inner] * y[(8 * bx + tx) * m + 8 * t_outer + t_inner];  // insn
            }
            __syncwarp();
        }
        if (8 * by + ty < n && 8 * bx + tx < n)
            g[(8 * by + ty) * n + 8 * bx + tx] = acc;  // insn
    }
}
