// matmul_processor computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_processor, grid ((n + 383) / 384, (m + 143) / 144), block (1)
// Assumes: m >= 1; n >= 1; p >= 1; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, n + 815, m + 299 must not exceed 2147483647

extern "C" __global__ void matmul_processor(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int n,
    int p)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    if (144 * by + 143 < m && 384 * bx + 383 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc[12][2][16];
        for (int j_tile = 0; j_tile < 12; ++j_tile) {
            for (int i_tile = 0; i_tile < 12; ++i_tile) {
                #pragma unroll
                for (int row = 0; row < 12; ++row) {
                    #pragma unroll
                    for (int vector = 0; vector < 2; ++vector) {
                        #pragma unroll
                        for (int lane = 0; lane < 16; ++lane)
                            acc[row][vector][lane] = 0.0f;
                    }
                }
                for (int k = 0; k < p; ++k) {
                    #pragma unroll
                    for (int row = 0; row < 12; ++row) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane)
                                acc[row][vector][lane] += a[(144 * by + 12 * i_tile + row) * p + k]
                                    * b[k * n + 384 * bx + 32 * j_tile + 16 * vector + lane];
                        }
                    }
                }
                #pragma unroll
                for (int row = 0; row < 12; ++row) {
                    #pragma unroll
                    for (int vector = 0; vector < 2; ++vector) {
                        #pragma unroll
                        for (int lane = 0; lane < 16; ++lane)
                            c[
                                (144 * by + 12 * i_tile + row) * n
                                + 384 * bx
                                + 32 * j_tile
                                + 16 * vector
                                + lane] =
                                acc[row][vector][lane];
                    }
                }
            }
        }
    } else {
        float acc[12][2][16];
        for (int j_tile = 0; j_tile < min(12, (n + 31) / 32 - 12 * bx); ++j_tile) {
            for (int i_tile = 0; i_tile < min(12, (m + 11) / 12 - 12 * by); ++i_tile) {
                #pragma unroll
                for (int row = 0; row < 12; ++row) {
                    if (144 * by + 12 * i_tile + row < m) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane) {
                                if (384 * bx + 32 * j_tile + 16 * vector + lane < n)
                                    acc[row][vector][lane] = 0.0f;
                            }
                        }
                    }
                }
                for (int k = 0; k < p; ++k) {
                    #pragma unroll
                    for (int row = 0; row < 12; ++row) {
                        const int i = 144 * by + 12 * i_tile + row;
                        if (i < m) {
                            #pragma unroll
                            for (int vector = 0; vector < 2; ++vector) {
                                #pragma unroll
                                for (int lane = 0; lane < 16; ++lane) {
                                    const int j = 384 * bx + 32 * j_tile + 16 * vector + lane;
                                    if (j < n)
                                        acc[row][vector][lane] += a[i * p + k] * b[k * n + j];
                                }
                            }
                        }
                    }
                }
                #pragma unroll
                for (int row = 0; row < 12; ++row) {
                    const int i = 144 * by + 12 * i_tile + row;
                    if (i < m) {
                        #pragma unroll
                        for (int vector = 0; vector < 2; ++vector) {
                            #pragma unroll
                            for (int lane = 0; lane < 16; ++lane) {
                                const int j = 384 * bx + 32 * j_tile + 16 * vector + lane;
                                if (j < n)
                                    c[i * n + j] = acc[row][vector][lane];
                            }
                        }
                    }
                }
            }
        }
    }
}
