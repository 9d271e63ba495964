// blur_of_rows_before_columns computes
//     for i in [0, n), j in [0, n)
//         y[i, j] = row(i, j) + 2*row(i + 1, j) + row(i + 2, j)
// Sizes: x: (n + 2) x (n + 2), y: n x n
// Launch: blur_of_rows_before_columns, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: (n + 2)*(n + 2), n*n, n + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) blur_of_rows_before_columns(
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    __shared__ float row_value[10][8];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int row_dim_0_outer = 0; row_dim_0_outer < 2; ++row_dim_0_outer) {
            if (8 * row_dim_0_outer + ty < 10) {
                const int x_offset = (i + 8 * row_dim_0_outer) * (n + 2) + j;
                row_value[8 * row_dim_0_outer + ty][tx] =
                    x[x_offset] + 2.0f * x[x_offset + 1] + x[x_offset + 2];
            }
        }
        __syncthreads();  // row_value: reads follow writes
        y[i * n + j] = row_value[ty][tx] + 2.0f * row_value[ty + 1][tx] + row_value[ty + 2][tx];
    } else {
        if (i <= n + 1 && j < n) {
            #pragma unroll
            for (int row_dim_0_outer = 0; row_dim_0_outer < 2; ++row_dim_0_outer) {
                if (8 * row_dim_0_outer + ty < 10 && i + 8 * row_dim_0_outer <= n + 1) {
                    const int x_offset = (i + 8 * row_dim_0_outer) * (n + 2) + j;
                    row_value[8 * row_dim_0_outer + ty][tx] =
                        x[x_offset] + 2.0f * x[x_offset + 1] + x[x_offset + 2];
                }
            }
        }
        __syncthreads();  // row_value: reads follow writes
        if (i < n && j < n)
            y[i * n + j] = row_value[ty][tx] + 2.0f * row_value[ty + 1][tx] + row_value[ty + 2][tx];
    }
}
