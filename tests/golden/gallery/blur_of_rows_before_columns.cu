extern "C" __global__ void __launch_bounds__(64) blur_of_rows_before_columns(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    __shared__ float row_value[10][8];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        #pragma unroll
        for (int row_dim_0_outer = 0; row_dim_0_outer < 2; ++row_dim_0_outer) {
            if (8 * row_dim_0_outer + ty < 10)
                row_value[8 * row_dim_0_outer + ty][tx] = x[(i + 8 * row_dim_0_outer) * (n + 2) + j] + 2.0f * x[(i + 8 * row_dim_0_outer) * (n + 2) + j + 1] + x[(i + 8 * row_dim_0_outer) * (n + 2) + j + 2];  // compute_row
        }
        __syncthreads();
        y[i * n + j] = row_value[ty][tx] + 2.0f * row_value[ty + 1][tx] + row_value[ty + 2][tx];  // insn
    } else {
        if (i <= n + 1 && j < n) {
            #pragma unroll
            for (int row_dim_0_outer = 0; row_dim_0_outer < 2; ++row_dim_0_outer) {
                if (8 * row_dim_0_outer + ty < 10 && i + 8 * row_dim_0_outer <= n + 1)
                    row_value[8 * row_dim_0_outer + ty][tx] = x[(i + 8 * row_dim_0_outer) * (n + 2) + j] + 2.0f * x[(i + 8 * row_dim_0_outer) * (n + 2) + j + 1] + x[(i + 8 * row_dim_0_outer) * (n + 2) + j + 2];  // compute_row
            }
        }
        __syncthreads();
        if (i < n && j < n)
            y[i * n + j] = row_value[ty][tx] + 2.0f * row_value[ty + 1][tx] + row_value[ty + 2][tx];  // insn
    }
}
