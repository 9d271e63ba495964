// matmul_vectors computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_vectors, grid ((n / 4 + 31) / 32, (m + 127) / 128), block (256)
// Assumes: n % 4 == 0; p % 4 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c is aligned to 16 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, 2*p + 8, n + 351, m + 307, p + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) matmul_vectors(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int a_dim_1_outer = tx % 2, tj = tx % 8, b_dim_1_outer = tx % 32, a_dim_0 = tx / 2,
        ti = tx / 8 % 4, wi = tx / 32 % 4, b_dim_0 = tx / 32, wj = tx / 128;
    __shared__ __align__(16) float a_tile[8][132];
    __shared__ __align__(16) float b_tile[8][128];
    if (128 * by + 127 < m && 128 * bx + 127 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        __align__(16) float acc[2][4][2][4];
        #pragma unroll
        for (int i_hi = 0; i_hi < 2; ++i_hi) {
            #pragma unroll
            for (int i_lo = 0; i_lo < 4; ++i_lo) {
                #pragma unroll
                for (int j_hi = 0; j_hi < 2; ++j_hi) {
                    #pragma unroll
                    for (int j_lo = 0; j_lo < 4; ++j_lo)
                        acc[i_hi][i_lo][j_hi][j_lo] = 0.0f;
                }
            }
        }
        // Full tiles, without tests; the others begin at ko_full.
        const int ko_full = p / 8;
        __align__(16) float a_part[2][4];
        __align__(16) float b_part[2][4];
        for (int ko = 0; ko < ko_full; ++ko) {
            const float4 a_v =
                *(const float4 *)&a[(128 * by + a_dim_0) * p + 8 * ko + 4 * a_dim_1_outer];
            a_tile[4 * a_dim_1_outer][a_dim_0] = a_v.x;
            a_tile[4 * a_dim_1_outer + 1][a_dim_0] = a_v.y;
            a_tile[4 * a_dim_1_outer + 2][a_dim_0] = a_v.z;
            a_tile[4 * a_dim_1_outer + 3][a_dim_0] = a_v.w;
            *(float4 *)&b_tile[b_dim_0][4 * b_dim_1_outer] =
                *(const float4 *)&b[(8 * ko + b_dim_0) * n + 128 * bx + 4 * b_dim_1_outer];
            __syncthreads();  // a_tile, b_tile: reads follow writes
            #pragma unroll
            for (int ki = 0; ki < 8; ++ki) {
                #pragma unroll
                for (int a_tile_dim_0 = 0; a_tile_dim_0 < 2; ++a_tile_dim_0)
                    *(float4 *)&a_part[a_tile_dim_0][0] =
                        *(const float4 *)&a_tile[ki][32 * wi + 16 * a_tile_dim_0 + 4 * ti];
                #pragma unroll
                for (int b_tile_dim_0 = 0; b_tile_dim_0 < 2; ++b_tile_dim_0)
                    *(float4 *)&b_part[b_tile_dim_0][0] =
                        *(const float4 *)&b_tile[ki][64 * wj + 32 * b_tile_dim_0 + 4 * tj];
                #pragma unroll
                for (int i_hi = 0; i_hi < 2; ++i_hi) {
                    #pragma unroll
                    for (int i_lo = 0; i_lo < 4; ++i_lo) {
                        #pragma unroll
                        for (int j_hi = 0; j_hi < 2; ++j_hi) {
                            #pragma unroll
                            for (int j_lo = 0; j_lo < 4; ++j_lo)
                                acc[i_hi][i_lo][j_hi][j_lo] +=
                                    a_part[i_hi][i_lo] * b_part[j_hi][j_lo];
                        }
                    }
                }
            }
            __syncthreads();  // a_tile, b_tile: writes follow reads
        }
        for (int ko = ko_full; ko < (p + 4) / 8; ++ko) {
            if (8 * ko + 4 * a_dim_1_outer + 3 < p) {
                const float4 a_v =
                    *(const float4 *)&a[(128 * by + a_dim_0) * p + 8 * ko + 4 * a_dim_1_outer];
                a_tile[4 * a_dim_1_outer][a_dim_0] = a_v.x;
                a_tile[4 * a_dim_1_outer + 1][a_dim_0] = a_v.y;
                a_tile[4 * a_dim_1_outer + 2][a_dim_0] = a_v.z;
                a_tile[4 * a_dim_1_outer + 3][a_dim_0] = a_v.w;
            }
            if (8 * ko + b_dim_0 < p)
                *(float4 *)&b_tile[b_dim_0][4 * b_dim_1_outer] =
                    *(const float4 *)&b[(8 * ko + b_dim_0) * n + 128 * bx + 4 * b_dim_1_outer];
            __syncthreads();  // a_tile, b_tile: reads follow writes
            #pragma unroll
            for (int ki = 0; ki < 8; ++ki) {
                if (8 * ko + ki < p) {
                    #pragma unroll
                    for (int a_tile_dim_0 = 0; a_tile_dim_0 < 2; ++a_tile_dim_0)
                        *(float4 *)&a_part[a_tile_dim_0][0] =
                            *(const float4 *)&a_tile[ki][32 * wi + 16 * a_tile_dim_0 + 4 * ti];
                    #pragma unroll
                    for (int b_tile_dim_0 = 0; b_tile_dim_0 < 2; ++b_tile_dim_0)
                        *(float4 *)&b_part[b_tile_dim_0][0] =
                            *(const float4 *)&b_tile[ki][64 * wj + 32 * b_tile_dim_0 + 4 * tj];
                    #pragma unroll
                    for (int i_hi = 0; i_hi < 2; ++i_hi) {
                        #pragma unroll
                        for (int i_lo = 0; i_lo < 4; ++i_lo) {
                            #pragma unroll
                            for (int j_hi = 0; j_hi < 2; ++j_hi) {
                                #pragma unroll
                                for (int j_lo = 0; j_lo < 4; ++j_lo)
                                    acc[i_hi][i_lo][j_hi][j_lo] +=
                                        a_part[i_hi][i_lo] * b_part[j_hi][j_lo];
                            }
                        }
                    }
                }
            }
            __syncthreads();  // a_tile, b_tile: writes follow reads
        }
        #pragma unroll
        for (int i_hi = 0; i_hi < 2; ++i_hi) {
            #pragma unroll
            for (int i_lo = 0; i_lo < 4; ++i_lo) {
                #pragma unroll
                for (int j_hi = 0; j_hi < 2; ++j_hi)
                    *(float4 *)&c[
                        (128 * by + 32 * wi + 16 * i_hi + 4 * ti + i_lo) * n
                        + 128 * bx
                        + 64 * wj
                        + 32 * j_hi
                        + 4 * tj] =
                        *(const float4 *)&acc[i_hi][i_lo][j_hi][0];
            }
        }
    } else {
        __align__(16) float acc[2][4][2][4];
        if (128 * by + 32 * wi + 4 * ti < m && 128 * bx + 64 * wj + 4 * tj + 3 < n) {
            #pragma unroll
            for (int i_hi = 0; i_hi < 2; ++i_hi) {
                if (128 * by + 32 * wi + 16 * i_hi + 4 * ti < m) {
                    #pragma unroll
                    for (int i_lo = 0; i_lo < 4; ++i_lo) {
                        if (128 * by + 32 * wi + 16 * i_hi + 4 * ti + i_lo < m) {
                            #pragma unroll
                            for (int j_hi = 0; j_hi < 2; ++j_hi) {
                                if (128 * bx + 64 * wj + 32 * j_hi + 4 * tj + 3 < n) {
                                    #pragma unroll
                                    for (int j_lo = 0; j_lo < 4; ++j_lo)
                                        acc[i_hi][i_lo][j_hi][j_lo] = 0.0f;
                                }
                            }
                        }
                    }
                }
            }
        }
        __align__(16) float a_part[2][4];
        __align__(16) float b_part[2][4];
        for (int ko = 0; ko < (p + 4) / 8; ++ko) {
            if (128 * by + a_dim_0 < m && 8 * ko + 4 * a_dim_1_outer + 3 < p) {
                const float4 a_v =
                    *(const float4 *)&a[(128 * by + a_dim_0) * p + 8 * ko + 4 * a_dim_1_outer];
                a_tile[4 * a_dim_1_outer][a_dim_0] = a_v.x;
                a_tile[4 * a_dim_1_outer + 1][a_dim_0] = a_v.y;
                a_tile[4 * a_dim_1_outer + 2][a_dim_0] = a_v.z;
                a_tile[4 * a_dim_1_outer + 3][a_dim_0] = a_v.w;
            }
            if (8 * ko + b_dim_0 < p && 128 * bx + 4 * b_dim_1_outer + 3 < n)
                *(float4 *)&b_tile[b_dim_0][4 * b_dim_1_outer] =
                    *(const float4 *)&b[(8 * ko + b_dim_0) * n + 128 * bx + 4 * b_dim_1_outer];
            __syncthreads();  // a_tile, b_tile: reads follow writes
            #pragma unroll
            for (int ki = 0; ki < 8; ++ki) {
                if (8 * ko + ki < p) {
                    if (128 * by + 32 * wi + 4 * ti < m) {
                        #pragma unroll
                        for (int a_tile_dim_0 = 0; a_tile_dim_0 < 2; ++a_tile_dim_0) {
                            if (128 * by + 32 * wi + 16 * a_tile_dim_0 + 4 * ti + 3 < m) {
                                *(float4 *)&a_part[a_tile_dim_0][0] = *(const float4 *)&a_tile[ki][
                                    32 * wi + 16 * a_tile_dim_0 + 4 * ti];
                            } else {
                                #pragma unroll
                                for (int a_tile_dim_1 = 0; a_tile_dim_1 < 4; ++a_tile_dim_1) {
                                    if (128 * by
                                                + 32 * wi
                                                + 16 * a_tile_dim_0
                                                + 4 * ti
                                                + a_tile_dim_1
                                            < m)
                                        a_part[a_tile_dim_0][a_tile_dim_1] = a_tile[ki][
                                            32 * wi + 16 * a_tile_dim_0 + 4 * ti + a_tile_dim_1];
                                }
                            }
                        }
                    }
                    if (128 * bx + 64 * wj + 4 * tj + 3 < n) {
                        #pragma unroll
                        for (int b_tile_dim_0 = 0; b_tile_dim_0 < 2; ++b_tile_dim_0) {
                            if (128 * bx + 64 * wj + 32 * b_tile_dim_0 + 4 * tj + 3 < n)
                                *(float4 *)&b_part[b_tile_dim_0][0] = *(const float4 *)&b_tile[ki][
                                    64 * wj + 32 * b_tile_dim_0 + 4 * tj];
                        }
                    }
                    if (128 * by + 32 * wi + 4 * ti < m && 128 * bx + 64 * wj + 4 * tj + 3 < n) {
                        #pragma unroll
                        for (int i_hi = 0; i_hi < 2; ++i_hi) {
                            if (128 * by + 32 * wi + 16 * i_hi + 4 * ti < m) {
                                #pragma unroll
                                for (int i_lo = 0; i_lo < 4; ++i_lo) {
                                    if (128 * by + 32 * wi + 16 * i_hi + 4 * ti + i_lo < m) {
                                        #pragma unroll
                                        for (int j_hi = 0; j_hi < 2; ++j_hi) {
                                            if (128 * bx + 64 * wj + 32 * j_hi + 4 * tj + 3 < n) {
                                                #pragma unroll
                                                for (int j_lo = 0; j_lo < 4; ++j_lo)
                                                    acc[i_hi][i_lo][j_hi][j_lo] +=
                                                        a_part[i_hi][i_lo] * b_part[j_hi][j_lo];
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            __syncthreads();  // a_tile, b_tile: writes follow reads
        }
        if (128 * by + 32 * wi + 4 * ti < m && 128 * bx + 64 * wj + 4 * tj + 3 < n) {
            #pragma unroll
            for (int i_hi = 0; i_hi < 2; ++i_hi) {
                if (128 * by + 32 * wi + 16 * i_hi + 4 * ti < m) {
                    #pragma unroll
                    for (int i_lo = 0; i_lo < 4; ++i_lo) {
                        const int i = 128 * by + 32 * wi + 16 * i_hi + 4 * ti + i_lo;
                        if (i < m) {
                            #pragma unroll
                            for (int j_hi = 0; j_hi < 2; ++j_hi) {
                                if (128 * bx + 64 * wj + 32 * j_hi + 4 * tj + 3 < n)
                                    *(float4 *)&c[i * n + 128 * bx + 64 * wj + 32 * j_hi + 4 * tj] =
                                        *(const float4 *)&acc[i_hi][i_lo][j_hi][0];
                            }
                        }
                    }
                }
            }
        }
    }
}
