extern "C" __global__ void __launch_bounds__(32) clamped_stencil(const float *__restrict__ a, float *__restrict__ b, int m, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[4][10];
    if (4 * by + 3 < n && bx >= 1 && 8 * bx + 8 < m) {
        #pragma unroll
        for (int a_dim_1_outer = 0; a_dim_1_outer < 2; ++a_dim_1_outer) {
            if (8 * a_dim_1_outer + tx < 10)
                a_fetch[ty][8 * a_dim_1_outer + tx] = a[(4 * by + ty) * m + 8 * bx + 8 * a_dim_1_outer + tx - 1];  // fetch_a
        }
        __syncwarp();
        b[(4 * by + ty) * m + 8 * bx + tx] = a_fetch[ty][tx] - 2.0f * a_fetch[ty][tx + 1] + a_fetch[ty][tx + 2];  // insn
    } else {
        if (4 * by + ty < n && 8 * bx + tx <= m) {
            #pragma unroll
            for (int a_dim_1_outer = 0; a_dim_1_outer < 2; ++a_dim_1_outer) {
                if (8 * a_dim_1_outer + tx < 10 && 8 * bx + 8 * a_dim_1_outer + tx >= 1 && 8 * bx + 8 * a_dim_1_outer + tx <= m)
                    a_fetch[ty][8 * a_dim_1_outer + tx] = a[(4 * by + ty) * m + 8 * bx + 8 * a_dim_1_outer + tx - 1];  // fetch_a
            }
        }
        __syncwarp();
        if (4 * by + ty < n && 8 * bx + tx < m)
            b[(4 * by + ty) * m + 8 * bx + tx] = (8 * bx + tx > 0 ? a_fetch[ty][tx] : a_fetch[ty][tx + 1]) - 2.0f * a_fetch[ty][tx + 1] + (8 * bx + tx == m - 1 ? a_fetch[ty][tx + 1] : a_fetch[ty][tx + 2]);  // insn
    }
}
