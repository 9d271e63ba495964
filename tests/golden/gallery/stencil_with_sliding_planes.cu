// stencil_with_sliding_planes computes
//     for k in [0, n), i in [0, n), j in [0, n)
//         v[k, i, j] = u[k, i + 1, j + 1] + u[k + 2, i + 1, j + 1] + u[k + 1, i, j + 1]
//             + u[k + 1, i + 2, j + 1] + u[k + 1, i + 1, j] + u[k + 1, i + 1, j + 2]
//             - 6*u[k + 1, i + 1, j + 1]
// Sizes: u: (n + 2) x (n + 2) x (n + 2), v: n x n x n
// Launch: stencil_with_sliding_planes, grid ((n + 15) / 16, (n + 3) / 4), block (16, 4)
// Assumes: n >= 1; v overlaps no other array
// Indices have 32 bits: (n + 2)*(n + 2)*(n + 2), n*n*n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) stencil_with_sliding_planes(
    const float *__restrict__ u,
    float *__restrict__ v,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 4 * by + ty, j = 16 * bx + tx;
    __shared__ float u_fetch[4][6][18];
    if (4 * by + 3 < n && 16 * bx + 15 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float u_fetch_next[2][2];
        #pragma unroll
        for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
            if (4 * u_dim_1_outer + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                    if (16 * u_dim_2_outer + tx < 18)
                        u_fetch_next[u_dim_1_outer][u_dim_2_outer] =
                            u[(i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];
                }
            }
        }
        #pragma unroll
        for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
            if (4 * u_dim_1_outer_s + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                    if (16 * u_dim_2_outer_s + tx < 18)
                        u_fetch[0][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] =
                            u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];
                }
            }
        }
        #pragma unroll
        for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
            if (4 * u_dim_1_outer + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                    if (16 * u_dim_2_outer + tx < 18)
                        u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[
                            (n + 2) * (n + 2)
                            + (i + 4 * u_dim_1_outer) * (n + 2)
                            + j
                            + 16 * u_dim_2_outer];
                }
            }
        }
        #pragma unroll
        for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
            if (4 * u_dim_1_outer_s + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                    if (16 * u_dim_2_outer_s + tx < 18)
                        u_fetch[1][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] =
                            u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];
                }
            }
        }
        #pragma unroll
        for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
            if (4 * u_dim_1_outer + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                    if (16 * u_dim_2_outer + tx < 18)
                        u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[
                            2 * (n + 2) * (n + 2)
                            + (i + 4 * u_dim_1_outer) * (n + 2)
                            + j
                            + 16 * u_dim_2_outer];
                }
            }
        }
        // Full tiles, without tests; the others begin at k_full.
        const int k_full = n - 1;
        for (int k = 0; k < k_full; ++k) {
            #pragma unroll
            for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                if (4 * u_dim_1_outer_s + ty < 6) {
                    #pragma unroll
                    for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                        if (16 * u_dim_2_outer_s + tx < 18)
                            u_fetch[(k + 2) % 4][4 * u_dim_1_outer_s + ty][
                                16 * u_dim_2_outer_s + tx] =
                                u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];
                    }
                }
            }
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (16 * u_dim_2_outer + tx < 18)
                            u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[
                                (k + 3) * (n + 2) * (n + 2)
                                + (i + 4 * u_dim_1_outer) * (n + 2)
                                + j
                                + 16 * u_dim_2_outer];
                    }
                }
            }
            __syncthreads();  // u_fetch: reads follow writes, writes follow reads
            v[k * n * n + i * n + j] = u_fetch[k % 4][ty + 1][tx + 1]
                + u_fetch[(k + 2) % 4][ty + 1][tx + 1]
                + u_fetch[(k + 1) % 4][ty][tx + 1]
                + u_fetch[(k + 1) % 4][ty + 2][tx + 1]
                + u_fetch[(k + 1) % 4][ty + 1][tx]
                + u_fetch[(k + 1) % 4][ty + 1][tx + 2]
                - 6.0f * u_fetch[(k + 1) % 4][ty + 1][tx + 1];
        }
        for (int k = k_full; k < n; ++k) {
            #pragma unroll
            for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                if (4 * u_dim_1_outer_s + ty < 6) {
                    #pragma unroll
                    for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                        if (16 * u_dim_2_outer_s + tx < 18)
                            u_fetch[(k + 2) % 4][4 * u_dim_1_outer_s + ty][
                                16 * u_dim_2_outer_s + tx] =
                                u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];
                    }
                }
            }
            __syncthreads();  // u_fetch: reads follow writes, writes follow reads
            v[k * n * n + i * n + j] = u_fetch[k % 4][ty + 1][tx + 1]
                + u_fetch[(k + 2) % 4][ty + 1][tx + 1]
                + u_fetch[(k + 1) % 4][ty][tx + 1]
                + u_fetch[(k + 1) % 4][ty + 2][tx + 1]
                + u_fetch[(k + 1) % 4][ty + 1][tx]
                + u_fetch[(k + 1) % 4][ty + 1][tx + 2]
                - 6.0f * u_fetch[(k + 1) % 4][ty + 1][tx + 1];
        }
    } else {
        float u_fetch_next[2][2];
        if (i <= n + 1 && j <= n + 1) {
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6 && i + 4 * u_dim_1_outer <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (16 * u_dim_2_outer + tx < 18 && j + 16 * u_dim_2_outer <= n + 1)
                            u_fetch_next[u_dim_1_outer][u_dim_2_outer] =
                                u[(i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];
                    }
                }
            }
            #pragma unroll
            for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                if (4 * u_dim_1_outer_s + ty < 6 && i + 4 * u_dim_1_outer_s <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                        if (16 * u_dim_2_outer_s + tx < 18 && j + 16 * u_dim_2_outer_s <= n + 1)
                            u_fetch[0][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] =
                                u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];
                    }
                }
            }
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6 && i + 4 * u_dim_1_outer <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (16 * u_dim_2_outer + tx < 18 && j + 16 * u_dim_2_outer <= n + 1)
                            u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[
                                (n + 2) * (n + 2)
                                + (i + 4 * u_dim_1_outer) * (n + 2)
                                + j
                                + 16 * u_dim_2_outer];
                    }
                }
            }
            #pragma unroll
            for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                if (4 * u_dim_1_outer_s + ty < 6 && i + 4 * u_dim_1_outer_s <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                        if (16 * u_dim_2_outer_s + tx < 18 && j + 16 * u_dim_2_outer_s <= n + 1)
                            u_fetch[1][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] =
                                u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];
                    }
                }
            }
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6 && i + 4 * u_dim_1_outer <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (16 * u_dim_2_outer + tx < 18 && j + 16 * u_dim_2_outer <= n + 1)
                            u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[
                                2 * (n + 2) * (n + 2)
                                + (i + 4 * u_dim_1_outer) * (n + 2)
                                + j
                                + 16 * u_dim_2_outer];
                    }
                }
            }
        }
        for (int k = 0; k < n; ++k) {
            if (i <= n + 1 && j <= n + 1) {
                #pragma unroll
                for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                    if (4 * u_dim_1_outer_s + ty < 6 && i + 4 * u_dim_1_outer_s <= n + 1) {
                        #pragma unroll
                        for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                            if (16 * u_dim_2_outer_s + tx < 18 && j + 16 * u_dim_2_outer_s <= n + 1)
                                u_fetch[(k + 2) % 4][4 * u_dim_1_outer_s + ty][
                                    16 * u_dim_2_outer_s + tx] =
                                    u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];
                        }
                    }
                }
            }
            if (k + 1 < n && i <= n + 1 && j <= n + 1) {
                #pragma unroll
                for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                    if (4 * u_dim_1_outer + ty < 6 && i + 4 * u_dim_1_outer <= n + 1) {
                        #pragma unroll
                        for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                            if (16 * u_dim_2_outer + tx < 18 && j + 16 * u_dim_2_outer <= n + 1)
                                u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[
                                    (k + 3) * (n + 2) * (n + 2)
                                    + (i + 4 * u_dim_1_outer) * (n + 2)
                                    + j
                                    + 16 * u_dim_2_outer];
                        }
                    }
                }
            }
            __syncthreads();  // u_fetch: reads follow writes, writes follow reads
            if (i < n && j < n)
                v[k * n * n + i * n + j] = u_fetch[k % 4][ty + 1][tx + 1]
                    + u_fetch[(k + 2) % 4][ty + 1][tx + 1]
                    + u_fetch[(k + 1) % 4][ty][tx + 1]
                    + u_fetch[(k + 1) % 4][ty + 2][tx + 1]
                    + u_fetch[(k + 1) % 4][ty + 1][tx]
                    + u_fetch[(k + 1) % 4][ty + 1][tx + 2]
                    - 6.0f * u_fetch[(k + 1) % 4][ty + 1][tx + 1];
        }
    }
}
