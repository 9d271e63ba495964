// transpose_vectors computes
//     for i in [0, n), j in [0, n)
//         b[i, j] = a[j, i]
// Sizes: a: n x n, b: n x n
// Launch: transpose_vectors, grid ((n / 4 + 15) / 16, (n / 4 + 15) / 16), block (16, 16)
// Assumes: n % 4 == 0; n >= 4; a is aligned to 16 bytes; b is aligned to 16 bytes; b overlaps no
//     other array
// Indices have 32 bits: n*n, n + 140 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) transpose_vectors(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float tile[64][65];
    if (64 * bx + 63 < n && 64 * by + 63 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int offset = 16 * a_dim_0_outer + ty;
            const float4 a_v = *(const float4 *)&a[(64 * bx + offset) * n + 64 * by + 4 * tx];
            tile[offset][4 * tx] = a_v.x;
            tile[offset][4 * tx + 1] = a_v.y;
            tile[offset][4 * tx + 2] = a_v.z;
            tile[offset][4 * tx + 3] = a_v.w;
        }
        __syncthreads();  // tile: reads follow writes
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            float4 b_v;
            const int offset = 16 * i_inner_outer + ty;
            b_v.x = tile[4 * tx][offset];
            b_v.y = tile[4 * tx + 1][offset];
            b_v.z = tile[4 * tx + 2][offset];
            b_v.w = tile[4 * tx + 3][offset];
            *(float4 *)&b[(64 * by + offset) * n + 64 * bx + 4 * tx] = b_v;
        }
    } else {
        if (64 * bx + ty < n && 64 * by + 4 * tx + 3 < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                if (64 * bx + 16 * a_dim_0_outer + ty < n) {
                    const int offset = 16 * a_dim_0_outer + ty;
                    const float4 a_v =
                        *(const float4 *)&a[(64 * bx + offset) * n + 64 * by + 4 * tx];
                    tile[offset][4 * tx] = a_v.x;
                    tile[offset][4 * tx + 1] = a_v.y;
                    tile[offset][4 * tx + 2] = a_v.z;
                    tile[offset][4 * tx + 3] = a_v.w;
                }
            }
        }
        __syncthreads();  // tile: reads follow writes
        if (64 * by + ty < n && 64 * bx + 4 * tx + 3 < n) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 64 * by + 16 * i_inner_outer + ty;
                if (i < n) {
                    float4 b_v;
                    const int tile_offset = 16 * i_inner_outer + ty;
                    b_v.x = tile[4 * tx][tile_offset];
                    b_v.y = tile[4 * tx + 1][tile_offset];
                    b_v.z = tile[4 * tx + 2][tile_offset];
                    b_v.w = tile[4 * tx + 3][tile_offset];
                    *(float4 *)&b[i * n + 64 * bx + 4 * tx] = b_v;
                }
            }
        }
    }
}
