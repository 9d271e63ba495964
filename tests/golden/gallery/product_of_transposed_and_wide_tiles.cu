// product_of_transposed_and_wide_tiles computes
//     for i in [0, n), j in [0, 4*n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, 4*n)
// Sizes: a: n x 4*n, b: 4*n x 4*n, c: n x 4*n
// Launch: product_of_transposed_and_wide_tiles, grid ((n + 3) / 4, (n + 7) / 8), block (16)
// Assumes: n >= 0; a is aligned to 16 bytes; b is aligned to 16 bytes; c is aligned to 16 bytes; c
//     overlaps no other array
// Indices have 32 bits: 16*n*n, 4*n*n, 8*n + 8, 4*n + 12, n + 17 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) product_of_transposed_and_wide_tiles(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int a_dim_1_outer = tx % 2, t_mod_4 = tx % 4, a_dim_0 = tx / 2, t_div_4 = tx / 4;
    __shared__ __align__(8) float a_tile[8][12];
    __shared__ __align__(16) float b_tile[8][16];
    if (8 * by + 7 < n && 4 * bx + 3 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        __align__(16) float acc[2][4];
        #pragma unroll
        for (int ii = 0; ii < 2; ++ii) {
            #pragma unroll
            for (int jj = 0; jj < 4; ++jj)
                acc[ii][jj] = 0.0f;
        }
        // Full tiles, without tests; the others begin at ko_full.
        const int ko_full = n / 2;
        __align__(8) float a_tile_fetch[2];
        __align__(16) float b_tile_fetch[4];
        for (int ko = 0; ko < ko_full; ++ko) {
            const float4 a_v =
                *(const float4 *)&a[(8 * by + a_dim_0) * 4 * n + 8 * ko + 4 * a_dim_1_outer];
            a_tile[4 * a_dim_1_outer][a_dim_0] = a_v.x;
            a_tile[4 * a_dim_1_outer + 1][a_dim_0] = a_v.y;
            a_tile[4 * a_dim_1_outer + 2][a_dim_0] = a_v.z;
            a_tile[4 * a_dim_1_outer + 3][a_dim_0] = a_v.w;
            #pragma unroll
            for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer)
                *(float4 *)&b_tile[4 * b_dim_0_outer + t_div_4][4 * t_mod_4] = *(const float4 *)&b[
                    (8 * ko + 4 * b_dim_0_outer + t_div_4) * 4 * n + 16 * bx + 4 * t_mod_4];
            __syncwarp();  // a_tile, b_tile: reads follow writes
            #pragma unroll
            for (int ki = 0; ki < 8; ++ki) {
                *(float2 *)&a_tile_fetch[0] = *(const float2 *)&a_tile[ki][2 * t_div_4];
                *(float4 *)&b_tile_fetch[0] = *(const float4 *)&b_tile[ki][4 * t_mod_4];
                #pragma unroll
                for (int ii = 0; ii < 2; ++ii) {
                    #pragma unroll
                    for (int jj = 0; jj < 4; ++jj)
                        acc[ii][jj] += a_tile_fetch[ii] * b_tile_fetch[jj];
                }
            }
            __syncwarp();  // a_tile, b_tile: writes follow reads
        }
        for (int ko = ko_full; ko < (n + 1) / 2; ++ko) {
            if (2 * ko + a_dim_1_outer < n) {
                const float4 a_v =
                    *(const float4 *)&a[(8 * by + a_dim_0) * 4 * n + 8 * ko + 4 * a_dim_1_outer];
                a_tile[4 * a_dim_1_outer][a_dim_0] = a_v.x;
                a_tile[4 * a_dim_1_outer + 1][a_dim_0] = a_v.y;
                a_tile[4 * a_dim_1_outer + 2][a_dim_0] = a_v.z;
                a_tile[4 * a_dim_1_outer + 3][a_dim_0] = a_v.w;
            }
            #pragma unroll
            for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
                if (2 * ko + b_dim_0_outer < n)
                    *(float4 *)&b_tile[4 * b_dim_0_outer + t_div_4][4 * t_mod_4] =
                        *(const float4 *)&b[
                            (8 * ko + 4 * b_dim_0_outer + t_div_4) * 4 * n + 16 * bx + 4 * t_mod_4];
            }
            __syncwarp();  // a_tile, b_tile: reads follow writes
            #pragma unroll
            for (int ki = 0; ki < 8; ++ki) {
                if (8 * ko + ki < 4 * n) {
                    *(float2 *)&a_tile_fetch[0] = *(const float2 *)&a_tile[ki][2 * t_div_4];
                    *(float4 *)&b_tile_fetch[0] = *(const float4 *)&b_tile[ki][4 * t_mod_4];
                    #pragma unroll
                    for (int ii = 0; ii < 2; ++ii) {
                        #pragma unroll
                        for (int jj = 0; jj < 4; ++jj)
                            acc[ii][jj] += a_tile_fetch[ii] * b_tile_fetch[jj];
                    }
                }
            }
            __syncwarp();  // a_tile, b_tile: writes follow reads
        }
        #pragma unroll
        for (int ii = 0; ii < 2; ++ii)
            *(float4 *)&c[(8 * by + 2 * t_div_4 + ii) * 4 * n + 16 * bx + 4 * t_mod_4] =
                *(const float4 *)&acc[ii][0];
    } else {
        __align__(16) float acc[2][4];
        if (8 * by + 2 * t_div_4 < n && 4 * bx + t_mod_4 < n) {
            #pragma unroll
            for (int ii = 0; ii < 2; ++ii) {
                if (8 * by + 2 * t_div_4 + ii < n) {
                    #pragma unroll
                    for (int jj = 0; jj < 4; ++jj)
                        acc[ii][jj] = 0.0f;
                }
            }
        }
        __align__(8) float a_tile_fetch[2];
        __align__(16) float b_tile_fetch[4];
        for (int ko = 0; ko < (n + 1) / 2; ++ko) {
            if (8 * by + a_dim_0 < n && 2 * ko + a_dim_1_outer < n) {
                const float4 a_v =
                    *(const float4 *)&a[(8 * by + a_dim_0) * 4 * n + 8 * ko + 4 * a_dim_1_outer];
                a_tile[4 * a_dim_1_outer][a_dim_0] = a_v.x;
                a_tile[4 * a_dim_1_outer + 1][a_dim_0] = a_v.y;
                a_tile[4 * a_dim_1_outer + 2][a_dim_0] = a_v.z;
                a_tile[4 * a_dim_1_outer + 3][a_dim_0] = a_v.w;
            }
            if (4 * bx + t_mod_4 < n) {
                #pragma unroll
                for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
                    if (2 * ko + b_dim_0_outer < n)
                        *(float4 *)&b_tile[4 * b_dim_0_outer + t_div_4][4 * t_mod_4] =
                            *(const float4 *)&b[
                                (8 * ko + 4 * b_dim_0_outer + t_div_4) * 4 * n
                                + 16 * bx
                                + 4 * t_mod_4];
                }
            }
            __syncwarp();  // a_tile, b_tile: reads follow writes
            #pragma unroll
            for (int ki = 0; ki < 8; ++ki) {
                if (8 * ko + ki < 4 * n) {
                    if (8 * by + 2 * t_div_4 + 1 < n) {
                        *(float2 *)&a_tile_fetch[0] = *(const float2 *)&a_tile[ki][2 * t_div_4];
                    } else {
                        #pragma unroll
                        for (int a_tile_dim_0 = 0; a_tile_dim_0 < 2; ++a_tile_dim_0) {
                            if (8 * by + 2 * t_div_4 + a_tile_dim_0 < n)
                                a_tile_fetch[a_tile_dim_0] = a_tile[ki][2 * t_div_4 + a_tile_dim_0];
                        }
                    }
                    if (4 * bx + t_mod_4 < n)
                        *(float4 *)&b_tile_fetch[0] = *(const float4 *)&b_tile[ki][4 * t_mod_4];
                    if (8 * by + 2 * t_div_4 < n && 4 * bx + t_mod_4 < n) {
                        #pragma unroll
                        for (int ii = 0; ii < 2; ++ii) {
                            if (8 * by + 2 * t_div_4 + ii < n) {
                                #pragma unroll
                                for (int jj = 0; jj < 4; ++jj)
                                    acc[ii][jj] += a_tile_fetch[ii] * b_tile_fetch[jj];
                            }
                        }
                    }
                }
            }
            __syncwarp();  // a_tile, b_tile: writes follow reads
        }
        if (8 * by + 2 * t_div_4 < n && 4 * bx + t_mod_4 < n) {
            #pragma unroll
            for (int ii = 0; ii < 2; ++ii) {
                const int i = 8 * by + 2 * t_div_4 + ii;
                if (i < n)
                    *(float4 *)&c[i * 4 * n + 16 * bx + 4 * t_mod_4] = *(const float4 *)&acc[ii][0];
            }
        }
    }
}
