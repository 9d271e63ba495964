// transpose_through_a_swizzled_tile computes
//     for i in [0, n), j in [0, n)
//         b[i, j] = a[j, i]
// Sizes: a: n x n, b: n x n
// Launch: transpose_through_a_swizzled_tile, grid ((n + 31) / 32, (n + 31) / 32), block (64)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n*n, n + 65 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) transpose_through_a_swizzled_tile(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int t_mod_32 = tx % 32, t_div_32 = tx / 32;
    const int j = 32 * bx + t_mod_32;
    __shared__ float tile[32][32];
    if (32 * bx + 31 < n && 32 * by + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 16; ++a_dim_0_outer) {
            const int offset = 2 * a_dim_0_outer + t_div_32;
            tile[offset][t_mod_32 ^ offset] = a[(32 * bx + offset) * n + 32 * by + t_mod_32];
        }
        __syncthreads();  // tile: reads follow writes
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 16; ++i_inner_outer)
            b[(32 * by + 2 * i_inner_outer + t_div_32) * n + j] =
                tile[t_mod_32][(2 * i_inner_outer + t_div_32) ^ t_mod_32];
    } else {
        if (32 * bx + t_div_32 < n && 32 * by + t_mod_32 < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 16; ++a_dim_0_outer) {
                const int a_index = 32 * bx + 2 * a_dim_0_outer + t_div_32;
                if (a_index < n)
                    tile[2 * a_dim_0_outer + t_div_32][t_mod_32 ^ (2 * a_dim_0_outer + t_div_32)] =
                        a[a_index * n + 32 * by + t_mod_32];
            }
        }
        __syncthreads();  // tile: reads follow writes
        if (32 * by + t_div_32 < n && j < n) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 16; ++i_inner_outer) {
                const int i = 32 * by + 2 * i_inner_outer + t_div_32;
                if (i < n)
                    b[i * n + j] = tile[t_mod_32][(2 * i_inner_outer + t_div_32) ^ t_mod_32];
            }
        }
    }
}
