// transpose computes
//     for i in [0, n), j in [0, m)
//         b[i, j] = a[j, i]
// Sizes: a: m x n, b: n x m
// Launch: transpose, grid ((m + 31) / 32, (n + 31) / 32), block (32, 8)
// Assumes: m >= 1; n >= 1; b overlaps no other array
// Indices have 32 bits: m*n, n*m, n + 71, m + 71 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) transpose(
    const float *__restrict__ a,
    float *__restrict__ b,
    int m,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int j = 32 * bx + tx;
    __shared__ float a_fetch[32][33];
    if (32 * bx + 31 < m && 32 * by + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
            a_fetch[8 * a_dim_0_outer + ty][tx] =
                a[(32 * bx + 8 * a_dim_0_outer + ty) * n + 32 * by + tx];
        __syncthreads();  // a_fetch: reads follow writes
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
            b[(32 * by + 8 * i_inner_outer + ty) * m + j] = a_fetch[tx][8 * i_inner_outer + ty];
    } else {
        if (32 * bx + ty < m && 32 * by + tx < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                if (32 * bx + 8 * a_dim_0_outer + ty < m)
                    a_fetch[8 * a_dim_0_outer + ty][tx] =
                        a[(32 * bx + 8 * a_dim_0_outer + ty) * n + 32 * by + tx];
            }
        }
        __syncthreads();  // a_fetch: reads follow writes
        if (32 * by + ty < n && j < m) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 32 * by + 8 * i_inner_outer + ty;
                if (i < n)
                    b[i * m + j] = a_fetch[tx][8 * i_inner_outer + ty];
            }
        }
    }
}
