extern "C" __global__ void __launch_bounds__(64) stencil_with_sliding_planes(const float *__restrict__ u, float *__restrict__ v, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 4 * by + ty, j = 16 * bx + tx;
    __shared__ float u_fetch[4][6][18];
    if (4 * by + 3 < n && 16 * bx + 15 < n) {
        float u_fetch_next[2][2];
        #pragma unroll
        for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
            if (4 * u_dim_1_outer + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                    if (16 * u_dim_2_outer + tx < 18)
                        u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[(i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];  // fetch_u
                }
            }
        }
        #pragma unroll
        for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
            if (4 * u_dim_1_outer_s + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                    if (16 * u_dim_2_outer_s + tx < 18)
                        u_fetch[0][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] = u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];  // store_u_fetch
                }
            }
        }
        #pragma unroll
        for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
            if (4 * u_dim_1_outer + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                    if (16 * u_dim_2_outer + tx < 18)
                        u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[(n + 2) * (n + 2) + (i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];  // fetch_u
                }
            }
        }
        #pragma unroll
        for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
            if (4 * u_dim_1_outer_s + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                    if (16 * u_dim_2_outer_s + tx < 18)
                        u_fetch[1][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] = u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];  // store_u_fetch
                }
            }
        }
        #pragma unroll
        for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
            if (4 * u_dim_1_outer + ty < 6) {
                #pragma unroll
                for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                    if (16 * u_dim_2_outer + tx < 18)
                        u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[2 * (n + 2) * (n + 2) + (i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];  // fetch_u
                }
            }
        }
        const int k_full = n - 1;
        for (int k = 0; k < k_full; ++k) {
            #pragma unroll
            for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                if (4 * u_dim_1_outer_s + ty < 6) {
                    #pragma unroll
                    for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                        if (16 * u_dim_2_outer_s + tx < 18)
                            u_fetch[(k + 2) % 4][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] = u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];  // store_u_fetch
                    }
                }
            }
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (16 * u_dim_2_outer + tx < 18)
                            u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[(k + 3) * (n + 2) * (n + 2) + (i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];  // fetch_u
                    }
                }
            }
            __syncthreads();
            v[k * n * n + i * n + j] = u_fetch[k % 4][ty + 1][tx + 1] + u_fetch[(k + 2) % 4][ty + 1][tx + 1] + u_fetch[(k + 1) % 4][ty][tx + 1] + u_fetch[(k + 1) % 4][ty + 2][tx + 1] + u_fetch[(k + 1) % 4][ty + 1][tx] + u_fetch[(k + 1) % 4][ty + 1][tx + 2] - 6.0f * u_fetch[(k + 1) % 4][ty + 1][tx + 1];  // insn
        }
        for (int k = k_full; k < n; ++k) {
            #pragma unroll
            for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                if (4 * u_dim_1_outer_s + ty < 6) {
                    #pragma unroll
                    for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                        if (16 * u_dim_2_outer_s + tx < 18)
                            u_fetch[(k + 2) % 4][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] = u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];  // store_u_fetch
                    }
                }
            }
            __syncthreads();
            v[k * n * n + i * n + j] = u_fetch[k % 4][ty + 1][tx + 1] + u_fetch[(k + 2) % 4][ty + 1][tx + 1] + u_fetch[(k + 1) % 4][ty][tx + 1] + u_fetch[(k + 1) % 4][ty + 2][tx + 1] + u_fetch[(k + 1) % 4][ty + 1][tx] + u_fetch[(k + 1) % 4][ty + 1][tx + 2] - 6.0f * u_fetch[(k + 1) % 4][ty + 1][tx + 1];  // insn
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
                            u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[(i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];  // fetch_u
                    }
                }
            }
        }
        if (i <= n + 1 && j <= n + 1) {
            #pragma unroll
            for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                if (4 * u_dim_1_outer_s + ty < 6 && i + 4 * u_dim_1_outer_s <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                        if (16 * u_dim_2_outer_s + tx < 18 && j + 16 * u_dim_2_outer_s <= n + 1)
                            u_fetch[0][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] = u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];  // store_u_fetch
                    }
                }
            }
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6 && i + 4 * u_dim_1_outer <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (16 * u_dim_2_outer + tx < 18 && j + 16 * u_dim_2_outer <= n + 1)
                            u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[(n + 2) * (n + 2) + (i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];  // fetch_u
                    }
                }
            }
        }
        if (i <= n + 1 && j <= n + 1) {
            #pragma unroll
            for (int u_dim_1_outer_s = 0; u_dim_1_outer_s < 2; ++u_dim_1_outer_s) {
                if (4 * u_dim_1_outer_s + ty < 6 && i + 4 * u_dim_1_outer_s <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer_s = 0; u_dim_2_outer_s < 2; ++u_dim_2_outer_s) {
                        if (16 * u_dim_2_outer_s + tx < 18 && j + 16 * u_dim_2_outer_s <= n + 1)
                            u_fetch[1][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] = u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];  // store_u_fetch
                    }
                }
            }
            #pragma unroll
            for (int u_dim_1_outer = 0; u_dim_1_outer < 2; ++u_dim_1_outer) {
                if (4 * u_dim_1_outer + ty < 6 && i + 4 * u_dim_1_outer <= n + 1) {
                    #pragma unroll
                    for (int u_dim_2_outer = 0; u_dim_2_outer < 2; ++u_dim_2_outer) {
                        if (16 * u_dim_2_outer + tx < 18 && j + 16 * u_dim_2_outer <= n + 1)
                            u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[2 * (n + 2) * (n + 2) + (i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];  // fetch_u
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
                                u_fetch[(k + 2) % 4][4 * u_dim_1_outer_s + ty][16 * u_dim_2_outer_s + tx] = u_fetch_next[u_dim_1_outer_s][u_dim_2_outer_s];  // store_u_fetch
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
                                u_fetch_next[u_dim_1_outer][u_dim_2_outer] = u[(k + 3) * (n + 2) * (n + 2) + (i + 4 * u_dim_1_outer) * (n + 2) + j + 16 * u_dim_2_outer];  // fetch_u
                        }
                    }
                }
            }
            __syncthreads();
            if (i < n && j < n)
                v[k * n * n + i * n + j] = u_fetch[k % 4][ty + 1][tx + 1] + u_fetch[(k + 2) % 4][ty + 1][tx + 1] + u_fetch[(k + 1) % 4][ty][tx + 1] + u_fetch[(k + 1) % 4][ty + 2][tx + 1] + u_fetch[(k + 1) % 4][ty + 1][tx] + u_fetch[(k + 1) % 4][ty + 1][tx + 2] - 6.0f * u_fetch[(k + 1) % 4][ty + 1][tx + 1];  // insn
        }
    }
}
