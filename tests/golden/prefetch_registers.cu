// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: product, grid ((n / 4 + 3) / 4, (m + 15) / 16), block (4, 4)
// Assumes: n % 4 == 0; p % 4 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, m + 41, n + 38 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) product(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int b_dim_1_outer = tx, a_dim_0 = 4 * ty + tx, b_dim_0 = ty;
    __shared__ __align__(8) float a_tile[4][20];
    __shared__ __align__(16) float b_tile[4][16];
    if (16 * by + 15 < m && 16 * bx + 15 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc[2][2][2][2];
        #pragma unroll
        for (int i_hi = 0; i_hi < 2; ++i_hi) {
            #pragma unroll
            for (int i_lo = 0; i_lo < 2; ++i_lo) {
                #pragma unroll
                for (int j_hi = 0; j_hi < 2; ++j_hi) {
                    #pragma unroll
                    for (int j_lo = 0; j_lo < 2; ++j_lo)
                        acc[i_hi][i_lo][j_hi][j_lo] = 0.0f;
                }
            }
        }
        __align__(8) float a_part[2][2];
        __align__(8) float b_part[2][2];
        for (int ko = 0; ko < p / 4; ++ko) {
            const float4 a_v = *(const float4 *)&a[(16 * by + a_dim_0) * p + 4 * ko];
            a_tile[0][a_dim_0] = a_v.x;
            a_tile[1][a_dim_0] = a_v.y;
            a_tile[2][a_dim_0] = a_v.z;
            a_tile[3][a_dim_0] = a_v.w;
            *(float4 *)&b_tile[b_dim_0][4 * b_dim_1_outer] =
                *(const float4 *)&b[(4 * ko + b_dim_0) * n + 16 * bx + 4 * b_dim_1_outer];
            __syncwarp();  // a_tile, b_tile: reads follow writes
            #pragma unroll
            for (int ki = 0; ki < 4; ++ki) {
                #pragma unroll
                for (int a_tile_dim_0 = 0; a_tile_dim_0 < 2; ++a_tile_dim_0)
                    *(float2 *)&a_part[a_tile_dim_0][0] =
                        *(const float2 *)&a_tile[ki][8 * a_tile_dim_0 + 2 * ty];
                #pragma unroll
                for (int b_tile_dim_0 = 0; b_tile_dim_0 < 2; ++b_tile_dim_0)
                    *(float2 *)&b_part[b_tile_dim_0][0] =
                        *(const float2 *)&b_tile[ki][8 * b_tile_dim_0 + 2 * tx];
                #pragma unroll
                for (int i_hi = 0; i_hi < 2; ++i_hi) {
                    #pragma unroll
                    for (int i_lo = 0; i_lo < 2; ++i_lo) {
                        #pragma unroll
                        for (int j_hi = 0; j_hi < 2; ++j_hi) {
                            #pragma unroll
                            for (int j_lo = 0; j_lo < 2; ++j_lo)
                                acc[i_hi][i_lo][j_hi][j_lo] +=
                                    a_part[i_hi][i_lo] * b_part[j_hi][j_lo];
                        }
                    }
                }
            }
            __syncwarp();  // a_tile, b_tile: writes follow reads
        }
        #pragma unroll
        for (int i_hi = 0; i_hi < 2; ++i_hi) {
            #pragma unroll
            for (int i_lo = 0; i_lo < 2; ++i_lo) {
                #pragma unroll
                for (int j_hi = 0; j_hi < 2; ++j_hi) {
                    #pragma unroll
                    for (int j_lo = 0; j_lo < 2; ++j_lo)
                        c[
                            (16 * by + 8 * i_hi + 2 * ty + i_lo) * n
                            + 16 * bx
                            + 8 * j_hi
                            + 2 * tx
                            + j_lo] =
                            acc[i_hi][i_lo][j_hi][j_lo];
                }
            }
        }
    } else {
        float acc[2][2][2][2];
        if (16 * by + 2 * ty < m && 16 * bx + 2 * tx + 1 < n) {
            #pragma unroll
            for (int i_hi = 0; i_hi < 2; ++i_hi) {
                if (16 * by + 8 * i_hi + 2 * ty < m) {
                    #pragma unroll
                    for (int i_lo = 0; i_lo < 2; ++i_lo) {
                        if (16 * by + 8 * i_hi + 2 * ty + i_lo < m) {
                            #pragma unroll
                            for (int j_hi = 0; j_hi < 2; ++j_hi) {
                                if (16 * bx + 8 * j_hi + 2 * tx + 1 < n) {
                                    #pragma unroll
                                    for (int j_lo = 0; j_lo < 2; ++j_lo)
                                        acc[i_hi][i_lo][j_hi][j_lo] = 0.0f;
                                }
                            }
                        }
                    }
                }
            }
        }
        __align__(8) float a_part[2][2];
        __align__(8) float b_part[2][2];
        for (int ko = 0; ko < p / 4; ++ko) {
            if (16 * by + a_dim_0 < m) {
                const float4 a_v = *(const float4 *)&a[(16 * by + a_dim_0) * p + 4 * ko];
                a_tile[0][a_dim_0] = a_v.x;
                a_tile[1][a_dim_0] = a_v.y;
                a_tile[2][a_dim_0] = a_v.z;
                a_tile[3][a_dim_0] = a_v.w;
            }
            if (16 * bx + 4 * b_dim_1_outer + 3 < n)
                *(float4 *)&b_tile[b_dim_0][4 * b_dim_1_outer] =
                    *(const float4 *)&b[(4 * ko + b_dim_0) * n + 16 * bx + 4 * b_dim_1_outer];
            __syncwarp();  // a_tile, b_tile: reads follow writes
            #pragma unroll
            for (int ki = 0; ki < 4; ++ki) {
                if (16 * by + 2 * ty < m) {
                    #pragma unroll
                    for (int a_tile_dim_0 = 0; a_tile_dim_0 < 2; ++a_tile_dim_0) {
                        if (16 * by + 8 * a_tile_dim_0 + 2 * ty + 1 < m) {
                            *(float2 *)&a_part[a_tile_dim_0][0] =
                                *(const float2 *)&a_tile[ki][8 * a_tile_dim_0 + 2 * ty];
                        } else {
                            #pragma unroll
                            for (int a_tile_dim_1 = 0; a_tile_dim_1 < 2; ++a_tile_dim_1) {
                                if (16 * by + 8 * a_tile_dim_0 + 2 * ty + a_tile_dim_1 < m)
                                    a_part[a_tile_dim_0][a_tile_dim_1] =
                                        a_tile[ki][8 * a_tile_dim_0 + 2 * ty + a_tile_dim_1];
                            }
                        }
                    }
                }
                if (16 * bx + 2 * tx + 1 < n) {
                    #pragma unroll
                    for (int b_tile_dim_0 = 0; b_tile_dim_0 < 2; ++b_tile_dim_0) {
                        if (16 * bx + 8 * b_tile_dim_0 + 2 * tx + 1 < n)
                            *(float2 *)&b_part[b_tile_dim_0][0] =
                                *(const float2 *)&b_tile[ki][8 * b_tile_dim_0 + 2 * tx];
                    }
                }
                if (16 * by + 2 * ty < m && 16 * bx + 2 * tx + 1 < n) {
                    #pragma unroll
                    for (int i_hi = 0; i_hi < 2; ++i_hi) {
                        if (16 * by + 8 * i_hi + 2 * ty < m) {
                            #pragma unroll
                            for (int i_lo = 0; i_lo < 2; ++i_lo) {
                                if (16 * by + 8 * i_hi + 2 * ty + i_lo < m) {
                                    #pragma unroll
                                    for (int j_hi = 0; j_hi < 2; ++j_hi) {
                                        if (16 * bx + 8 * j_hi + 2 * tx + 1 < n) {
                                            #pragma unroll
                                            for (int j_lo = 0; j_lo < 2; ++j_lo)
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
            __syncwarp();  // a_tile, b_tile: writes follow reads
        }
        if (16 * by + 2 * ty < m && 16 * bx + 2 * tx + 1 < n) {
            #pragma unroll
            for (int i_hi = 0; i_hi < 2; ++i_hi) {
                if (16 * by + 8 * i_hi + 2 * ty < m) {
                    #pragma unroll
                    for (int i_lo = 0; i_lo < 2; ++i_lo) {
                        const int i = 16 * by + 8 * i_hi + 2 * ty + i_lo;
                        if (i < m) {
                            #pragma unroll
                            for (int j_hi = 0; j_hi < 2; ++j_hi) {
                                if (16 * bx + 8 * j_hi + 2 * tx + 1 < n) {
                                    #pragma unroll
                                    for (int j_lo = 0; j_lo < 2; ++j_lo)
                                        c[i * n + 16 * bx + 8 * j_hi + 2 * tx + j_lo] =
                                            acc[i_hi][i_lo][j_hi][j_lo];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
