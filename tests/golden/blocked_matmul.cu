// matmul computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: matmul, grid (1), block (1)
// Assumes: n >= 1; c overlaps no other array
// Indices have 32 bits: n*n, 2*n + 6, n + 7 must not exceed 2147483647

extern "C" __global__ void matmul(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    // Full tiles, without tests; the others begin at i_outer_full.
    const int i_outer_full = n / 4;
    float acc[4][4];
    for (int i_outer = 0; i_outer < i_outer_full; ++i_outer) {
        // Full tiles, without tests; the others begin at j_outer_full.
        const int j_outer_full = n / 4;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            for (int i_inner = 0; i_inner < 4; ++i_inner) {
                for (int j_inner = 0; j_inner < 4; ++j_inner)
                    acc[i_inner][j_inner] = 0.0f;
            }
            // Full tiles, without tests; the others begin at k_outer_full.
            const int k_outer_full = n / 4;
            for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
                for (int i_inner = 0; i_inner < 4; ++i_inner) {
                    for (int j_inner = 0; j_inner < 4; ++j_inner) {
                        for (int k_inner = 0; k_inner < 4; ++k_inner) {
                            const int k = 4 * k_outer + k_inner;
                            acc[i_inner][j_inner] += a[(4 * i_outer + i_inner) * n + k]
                                * b[k * n + 4 * j_outer + j_inner];
                        }
                    }
                }
            }
            for (int k_outer = k_outer_full; k_outer < (n + 3) / 4; ++k_outer) {
                for (int i_inner = 0; i_inner < 4; ++i_inner) {
                    for (int j_inner = 0; j_inner < 4; ++j_inner) {
                        for (int k_inner = 0; k_inner < n - 4 * k_outer; ++k_inner) {
                            const int k = 4 * k_outer + k_inner;
                            acc[i_inner][j_inner] += a[(4 * i_outer + i_inner) * n + k]
                                * b[k * n + 4 * j_outer + j_inner];
                        }
                    }
                }
            }
            for (int i_inner = 0; i_inner < 4; ++i_inner) {
                for (int j_inner = 0; j_inner < 4; ++j_inner)
                    c[(4 * i_outer + i_inner) * n + 4 * j_outer + j_inner] = acc[i_inner][j_inner];
            }
        }
        for (int j_outer = j_outer_full; j_outer < (n + 3) / 4; ++j_outer) {
            for (int i_inner = 0; i_inner < 4; ++i_inner) {
                for (int j_inner = 0; j_inner < n - 4 * j_outer; ++j_inner)
                    acc[i_inner][j_inner] = 0.0f;
            }
            for (int k_outer = 0; k_outer < (n + 3) / 4; ++k_outer) {
                for (int i_inner = 0; i_inner < 4; ++i_inner) {
                    for (int j_inner = 0; j_inner < n - 4 * j_outer; ++j_inner) {
                        for (int k_inner = 0; k_inner < min(4, n - 4 * k_outer); ++k_inner) {
                            const int k = 4 * k_outer + k_inner;
                            acc[i_inner][j_inner] += a[(4 * i_outer + i_inner) * n + k]
                                * b[k * n + 4 * j_outer + j_inner];
                        }
                    }
                }
            }
            for (int i_inner = 0; i_inner < 4; ++i_inner) {
                for (int j_inner = 0; j_inner < n - 4 * j_outer; ++j_inner)
                    c[(4 * i_outer + i_inner) * n + 4 * j_outer + j_inner] = acc[i_inner][j_inner];
            }
        }
    }
    for (int i_outer = i_outer_full; i_outer < (n + 3) / 4; ++i_outer) {
        for (int j_outer = 0; j_outer < (n + 3) / 4; ++j_outer) {
            for (int i_inner = 0; i_inner < n - 4 * i_outer; ++i_inner) {
                for (int j_inner = 0; j_inner < min(4, n - 4 * j_outer); ++j_inner)
                    acc[i_inner][j_inner] = 0.0f;
            }
            for (int k_outer = 0; k_outer < (n + 3) / 4; ++k_outer) {
                for (int i_inner = 0; i_inner < n - 4 * i_outer; ++i_inner) {
                    for (int j_inner = 0; j_inner < min(4, n - 4 * j_outer); ++j_inner) {
                        for (int k_inner = 0; k_inner < min(4, n - 4 * k_outer); ++k_inner) {
                            const int k = 4 * k_outer + k_inner;
                            acc[i_inner][j_inner] += a[(4 * i_outer + i_inner) * n + k]
                                * b[k * n + 4 * j_outer + j_inner];
                        }
                    }
                }
            }
            for (int i_inner = 0; i_inner < n - 4 * i_outer; ++i_inner) {
                for (int j_inner = 0; j_inner < min(4, n - 4 * j_outer); ++j_inner)
                    c[(4 * i_outer + i_inner) * n + 4 * j_outer + j_inner] = acc[i_inner][j_inner];
            }
        }
    }
}
