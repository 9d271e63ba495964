// matmul_large_tiles computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_large_tiles, grid (min(8, (m + 127) / 128), (n / 4 + 31) / 32, (m + 1023) / 1024),
//     block (128)
// Assumes: n % 4 == 0; p % 4 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c is aligned to 16 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, m + 2275, n + 335, p + 28 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) matmul_large_tiles(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x;
    const int a_dim_1_outer = tx % 2, tj = tx % 4, b_dim_1_outer = tx % 32, a_dim_0_inner = tx / 2,
        ti = tx / 4 % 8, wi = tx / 32 % 2, b_dim_0_inner = tx / 32, wj = tx / 64;
    __shared__ __align__(16) float a_tile[2][8][132];
    __shared__ __align__(16) float b_tile[2][8][128];
    const int a_index = 1024 * bz + 128 * bx;
    if (a_index < m) {
        __align__(16) float acc[4][2][4][4];
        #pragma unroll
        for (int j_hi = 0; j_hi < 4; ++j_hi) {
            #pragma unroll
            for (int i_hi = 0; i_hi < 2; ++i_hi) {
                #pragma unroll
                for (int i_lo = 0; i_lo < 4; ++i_lo) {
                    #pragma unroll
                    for (int j_lo = 0; j_lo < 4; ++j_lo)
                        acc[j_hi][i_hi][i_lo][j_lo] = 0.0f;
                }
            }
        }
        __align__(16) float a_tile_next[2][4] = {};
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            const int a_index_0 = a_index + 64 * a_dim_0_outer + a_dim_0_inner;
            if (a_index_0 < m && 4 * a_dim_1_outer + 3 < p)
                *(float4 *)&a_tile_next[a_dim_0_outer][0] =
                    *(const float4 *)&a[a_index_0 * p + 4 * a_dim_1_outer];
        }
        __align__(16) float b_tile_next[2][4] = {};
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
            if (4 * b_dim_0_outer + b_dim_0_inner < p && 128 * by + 4 * b_dim_1_outer + 3 < n)
                *(float4 *)&b_tile_next[b_dim_0_outer][0] = *(const float4 *)&b[
                    (4 * b_dim_0_outer + b_dim_0_inner) * n + 128 * by + 4 * b_dim_1_outer];
        }
        // Full tiles, without tests; the others begin at ko_full.
        const int ko_full = p / 8 - 1;
        __align__(16) float b_part[4][4];
        __align__(16) float a_part[2][4];
        #pragma unroll 2
        for (int ko = 0; ko < ko_full; ++ko) {
            #pragma unroll
            for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s) {
                #pragma unroll
                for (int a_dim_1_vec_s = 0; a_dim_1_vec_s < 4; ++a_dim_1_vec_s)
                    a_tile[ko % 2][4 * a_dim_1_outer + a_dim_1_vec_s][
                        64 * a_dim_0_outer_s + a_dim_0_inner] =
                        a_tile_next[a_dim_0_outer_s][a_dim_1_vec_s];
            }
            #pragma unroll
            for (int b_dim_0_outer_s = 0; b_dim_0_outer_s < 2; ++b_dim_0_outer_s)
                *(float4 *)&b_tile[ko % 2][4 * b_dim_0_outer_s + b_dim_0_inner][4 * b_dim_1_outer] =
                    *(const float4 *)&b_tile_next[b_dim_0_outer_s][0];
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                const int a_index_0 = a_index + 64 * a_dim_0_outer + a_dim_0_inner;
                if (a_index_0 < m)
                    *(float4 *)&a_tile_next[a_dim_0_outer][0] =
                        *(const float4 *)&a[a_index_0 * p + 8 * ko + 4 * a_dim_1_outer + 8];
            }
            #pragma unroll
            for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
                if (128 * by + 4 * b_dim_1_outer + 3 < n)
                    *(float4 *)&b_tile_next[b_dim_0_outer][0] = *(const float4 *)&b[
                        (8 * ko + 4 * b_dim_0_outer + b_dim_0_inner + 8) * n
                        + 128 * by
                        + 4 * b_dim_1_outer];
            }
            __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
            #pragma unroll
            for (int ki = 0; ki < 8; ++ki) {
                #pragma unroll
                for (int b_tile_dim_0 = 0; b_tile_dim_0 < 4; ++b_tile_dim_0)
                    *(float4 *)&b_part[b_tile_dim_0][0] =
                        *(const float4 *)&b_tile[ko % 2][ki][64 * wj + 16 * b_tile_dim_0 + 4 * tj];
                #pragma unroll
                for (int a_tile_dim_0 = 0; a_tile_dim_0 < 2; ++a_tile_dim_0)
                    *(float4 *)&a_part[a_tile_dim_0][0] =
                        *(const float4 *)&a_tile[ko % 2][ki][64 * wi + 32 * a_tile_dim_0 + 4 * ti];
                #pragma unroll
                for (int j_hi = 0; j_hi < 4; ++j_hi) {
                    #pragma unroll
                    for (int i_hi = 0; i_hi < 2; ++i_hi) {
                        #pragma unroll
                        for (int i_lo = 0; i_lo < 4; ++i_lo) {
                            #pragma unroll
                            for (int j_lo = 0; j_lo < 4; ++j_lo)
                                acc[j_hi][i_hi][i_lo][j_lo] +=
                                    a_part[i_hi][i_lo] * b_part[j_hi][j_lo];
                        }
                    }
                }
            }
        }
        for (int ko = max(0, ko_full); ko < (p + 4) / 8; ++ko) {
            if (8 * ko + 4 * a_dim_1_outer + 3 < p) {
                #pragma unroll
                for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s) {
                    #pragma unroll
                    for (int a_dim_1_vec_s = 0; a_dim_1_vec_s < 4; ++a_dim_1_vec_s)
                        a_tile[ko % 2][4 * a_dim_1_outer + a_dim_1_vec_s][
                            64 * a_dim_0_outer_s + a_dim_0_inner] =
                            a_tile_next[a_dim_0_outer_s][a_dim_1_vec_s];
                }
            }
            #pragma unroll
            for (int b_dim_0_outer_s = 0; b_dim_0_outer_s < 2; ++b_dim_0_outer_s) {
                if (8 * ko + 4 * b_dim_0_outer_s + b_dim_0_inner < p)
                    *(float4 *)&b_tile[ko % 2][
                        4 * b_dim_0_outer_s + b_dim_0_inner][4 * b_dim_1_outer] =
                        *(const float4 *)&b_tile_next[b_dim_0_outer_s][0];
            }
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                const int a_index_0 = a_index + 64 * a_dim_0_outer + a_dim_0_inner;
                if (a_index_0 < m && 8 * ko + 4 * a_dim_1_outer + 11 < p)
                    *(float4 *)&a_tile_next[a_dim_0_outer][0] =
                        *(const float4 *)&a[a_index_0 * p + 8 * ko + 4 * a_dim_1_outer + 8];
            }
            #pragma unroll
            for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
                const int b_index = 8 * ko + 4 * b_dim_0_outer + b_dim_0_inner;
                if (b_index + 8 < p && 128 * by + 4 * b_dim_1_outer + 3 < n)
                    *(float4 *)&b_tile_next[b_dim_0_outer][0] =
                        *(const float4 *)&b[(b_index + 8) * n + 128 * by + 4 * b_dim_1_outer];
            }
            __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
            #pragma unroll
            for (int ki = 0; ki < 8; ++ki) {
                if (8 * ko + ki < p) {
                    #pragma unroll
                    for (int b_tile_dim_0 = 0; b_tile_dim_0 < 4; ++b_tile_dim_0)
                        *(float4 *)&b_part[b_tile_dim_0][0] = *(const float4 *)&b_tile[ko % 2][ki][
                            64 * wj + 16 * b_tile_dim_0 + 4 * tj];
                    #pragma unroll
                    for (int a_tile_dim_0 = 0; a_tile_dim_0 < 2; ++a_tile_dim_0)
                        *(float4 *)&a_part[a_tile_dim_0][0] = *(const float4 *)&a_tile[ko % 2][ki][
                            64 * wi + 32 * a_tile_dim_0 + 4 * ti];
                    #pragma unroll
                    for (int j_hi = 0; j_hi < 4; ++j_hi) {
                        #pragma unroll
                        for (int i_hi = 0; i_hi < 2; ++i_hi) {
                            #pragma unroll
                            for (int i_lo = 0; i_lo < 4; ++i_lo) {
                                #pragma unroll
                                for (int j_lo = 0; j_lo < 4; ++j_lo)
                                    acc[j_hi][i_hi][i_lo][j_lo] +=
                                        a_part[i_hi][i_lo] * b_part[j_hi][j_lo];
                            }
                        }
                    }
                }
            }
        }
        if (a_index + 64 * wi + 4 * ti < m && 128 * by + 64 * wj + 4 * tj + 3 < n) {
            #pragma unroll
            for (int j_hi = 0; j_hi < 4; ++j_hi) {
                if (128 * by + 64 * wj + 16 * j_hi + 4 * tj + 3 < n) {
                    #pragma unroll
                    for (int i_hi = 0; i_hi < 2; ++i_hi) {
                        if (a_index + 64 * wi + 32 * i_hi + 4 * ti < m) {
                            #pragma unroll
                            for (int i_lo = 0; i_lo < 4; ++i_lo) {
                                const int i = a_index + 64 * wi + 32 * i_hi + 4 * ti + i_lo;
                                if (i < m)
                                    *(float4 *)&c[i * n + 128 * by + 64 * wj + 16 * j_hi + 4 * tj] =
                                        *(const float4 *)&acc[j_hi][i_hi][i_lo][0];
                            }
                        }
                    }
                }
            }
        }
    }
}
