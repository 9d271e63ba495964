// matmul_processor computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_processor, grid ((n + 255) / 256, (m + 131) / 132), block (1)
// Assumes: m >= 1; n >= 1; p >= 1; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, n + 559, m + 269, p + 63 must not exceed 2147483647

extern "C" __global__ void matmul_processor(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int n,
    int p)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    if (132 * by + 131 < m && 256 * bx + 255 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc[8][22][6][2][16];
        for (int j_tile = 0; j_tile < 8; ++j_tile) {
            for (int i_tile = 0; i_tile < 22; ++i_tile) {
                #pragma unroll
                for (int row = 0; row < 6; ++row) {
                    #pragma unroll
                    for (int vector = 0; vector < 2; ++vector) {
                        #pragma unroll
                        for (int lane = 0; lane < 16; ++lane)
                            acc[j_tile][i_tile][row][vector][lane] = 0.0f;
                    }
                }
            }
        }
        // Full tiles, without tests; the others begin at ko_full.
        const int ko_full = p / 64;
        float part[6][2][16];
        float b_panel[64][256];
        float a_panel[132][64];
        for (int ko = 0; ko < ko_full; ++ko) {
            for (int b_dim_0 = 0; b_dim_0 < 64; ++b_dim_0) {
                for (int b_dim_1 = 0; b_dim_1 < 256; ++b_dim_1)
                    b_panel[b_dim_0][b_dim_1] = b[(64 * ko + b_dim_0) * n + 256 * bx + b_dim_1];
            }
            for (int a_dim_0 = 0; a_dim_0 < 132; ++a_dim_0) {
                for (int a_dim_1 = 0; a_dim_1 < 64; ++a_dim_1)
                    a_panel[a_dim_0][a_dim_1] = a[(132 * by + a_dim_0) * p + 64 * ko + a_dim_1];
            }
            for (int j_tile = 0; j_tile < 8; ++j_tile) {
                for (int i_tile = 0; i_tile < 22; ++i_tile) {
                    #pragma unroll
                    for (int row = 0; row < 6; ++row) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane)
                                part[row][vector][lane] = 0.0f;
                        }
                    }
                    for (int ki = 0; ki < 64; ++ki) {
                        #pragma unroll
                        for (int row = 0; row < 6; ++row) {
                            #pragma unroll
                            for (int vector = 0; vector < 2; ++vector) {
                                #pragma unroll
                                for (int lane = 0; lane < 16; ++lane)
                                    part[row][vector][lane] += a_panel[6 * i_tile + row][ki]
                                        * b_panel[ki][32 * j_tile + 16 * vector + lane];
                            }
                        }
                    }
                    #pragma unroll
                    for (int row = 0; row < 6; ++row) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane)
                                acc[j_tile][i_tile][row][vector][lane] += part[row][vector][lane];
                        }
                    }
                }
            }
        }
        for (int ko = ko_full; ko < (p + 63) / 64; ++ko) {
            for (int b_dim_0 = 0; b_dim_0 < p - 64 * ko; ++b_dim_0) {
                for (int b_dim_1 = 0; b_dim_1 < 256; ++b_dim_1)
                    b_panel[b_dim_0][b_dim_1] = b[(64 * ko + b_dim_0) * n + 256 * bx + b_dim_1];
            }
            for (int a_dim_0 = 0; a_dim_0 < 132; ++a_dim_0) {
                for (int a_dim_1 = 0; a_dim_1 < p - 64 * ko; ++a_dim_1)
                    a_panel[a_dim_0][a_dim_1] = a[(132 * by + a_dim_0) * p + 64 * ko + a_dim_1];
            }
            for (int j_tile = 0; j_tile < 8; ++j_tile) {
                for (int i_tile = 0; i_tile < 22; ++i_tile) {
                    #pragma unroll
                    for (int row = 0; row < 6; ++row) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane)
                                part[row][vector][lane] = 0.0f;
                        }
                    }
                    for (int ki = 0; ki < p - 64 * ko; ++ki) {
                        #pragma unroll
                        for (int row = 0; row < 6; ++row) {
                            #pragma unroll
                            for (int vector = 0; vector < 2; ++vector) {
                                #pragma unroll
                                for (int lane = 0; lane < 16; ++lane)
                                    part[row][vector][lane] += a_panel[6 * i_tile + row][ki]
                                        * b_panel[ki][32 * j_tile + 16 * vector + lane];
                            }
                        }
                    }
                    #pragma unroll
                    for (int row = 0; row < 6; ++row) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane)
                                acc[j_tile][i_tile][row][vector][lane] += part[row][vector][lane];
                        }
                    }
                }
            }
        }
        for (int j_tile = 0; j_tile < 8; ++j_tile) {
            for (int i_tile = 0; i_tile < 22; ++i_tile) {
                #pragma unroll
                for (int row = 0; row < 6; ++row) {
                    #pragma unroll
                    for (int vector = 0; vector < 2; ++vector) {
                        #pragma unroll
                        for (int lane = 0; lane < 16; ++lane)
                            c[
                                (132 * by + 6 * i_tile + row) * n
                                + 256 * bx
                                + 32 * j_tile
                                + 16 * vector
                                + lane] =
                                acc[j_tile][i_tile][row][vector][lane];
                    }
                }
            }
        }
    } else {
        float acc[8][22][6][2][16];
        for (int j_tile = 0; j_tile < min(8, (n + 31) / 32 - 8 * bx); ++j_tile) {
            for (int i_tile = 0; i_tile < min(22, (m + 5) / 6 - 22 * by); ++i_tile) {
                #pragma unroll
                for (int row = 0; row < 6; ++row) {
                    if (132 * by + 6 * i_tile + row < m) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane) {
                                if (256 * bx + 32 * j_tile + 16 * vector + lane < n)
                                    acc[j_tile][i_tile][row][vector][lane] = 0.0f;
                            }
                        }
                    }
                }
            }
        }
        float part[6][2][16];
        float b_panel[64][256];
        float a_panel[132][64];
        for (int ko = 0; ko < (p + 63) / 64; ++ko) {
            for (int b_dim_0 = 0; b_dim_0 < min(64, p - 64 * ko); ++b_dim_0) {
                for (int b_dim_1 = 0; b_dim_1 < min(256, n - 256 * bx); ++b_dim_1)
                    b_panel[b_dim_0][b_dim_1] = b[(64 * ko + b_dim_0) * n + 256 * bx + b_dim_1];
            }
            for (int a_dim_0 = 0; a_dim_0 < min(132, m - 132 * by); ++a_dim_0) {
                for (int a_dim_1 = 0; a_dim_1 < min(64, p - 64 * ko); ++a_dim_1)
                    a_panel[a_dim_0][a_dim_1] = a[(132 * by + a_dim_0) * p + 64 * ko + a_dim_1];
            }
            for (int j_tile = 0; j_tile < min(8, (n + 31) / 32 - 8 * bx); ++j_tile) {
                for (int i_tile = 0; i_tile < min(22, (m + 5) / 6 - 22 * by); ++i_tile) {
                    #pragma unroll
                    for (int row = 0; row < 6; ++row) {
                        if (132 * by + 6 * i_tile + row < m) {
                            #pragma unroll
                            for (int vector = 0; vector < 2; ++vector) {
                                #pragma unroll
                                for (int lane = 0; lane < 16; ++lane) {
                                    if (256 * bx + 32 * j_tile + 16 * vector + lane < n)
                                        part[row][vector][lane] = 0.0f;
                                }
                            }
                        }
                    }
                    for (int ki = 0; ki < min(64, p - 64 * ko); ++ki) {
                        #pragma unroll
                        for (int row = 0; row < 6; ++row) {
                            if (132 * by + 6 * i_tile + row < m) {
                                #pragma unroll
                                for (int vector = 0; vector < 2; ++vector) {
                                    #pragma unroll
                                    for (int lane = 0; lane < 16; ++lane) {
                                        if (256 * bx + 32 * j_tile + 16 * vector + lane < n)
                                            part[row][vector][lane] += a_panel[6 * i_tile + row][ki]
                                                * b_panel[ki][32 * j_tile + 16 * vector + lane];
                                    }
                                }
                            }
                        }
                    }
                    #pragma unroll
                    for (int row = 0; row < 6; ++row) {
                        if (132 * by + 6 * i_tile + row < m) {
                            #pragma unroll
                            for (int vector = 0; vector < 2; ++vector) {
                                #pragma unroll
                                for (int lane = 0; lane < 16; ++lane) {
                                    if (256 * bx + 32 * j_tile + 16 * vector + lane < n)
                                        acc[j_tile][i_tile][row][vector][lane] +=
                                            part[row][vector][lane];
                                }
                            }
                        }
                    }
                }
            }
        }
        for (int j_tile = 0; j_tile < min(8, (n + 31) / 32 - 8 * bx); ++j_tile) {
            for (int i_tile = 0; i_tile < min(22, (m + 5) / 6 - 22 * by); ++i_tile) {
                #pragma unroll
                for (int row = 0; row < 6; ++row) {
                    const int i = 132 * by + 6 * i_tile + row;
                    if (i < m) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane) {
                                const int j = 256 * bx + 32 * j_tile + 16 * vector + lane;
                                if (j < n)
                                    c[i * n + j] = acc[j_tile][i_tile][row][vector][lane];
                            }
                        }
                    }
                }
            }
        }
    }
}
