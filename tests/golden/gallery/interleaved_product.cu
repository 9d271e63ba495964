extern "C" __global__ void __launch_bounds__(64) product(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[32][8];
    __shared__ float b_fetch[8][16];
    if (32 * by + 31 < n && 16 * bx + 15 < n) {
        float acc[4][2];
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                acc[i_inner_outer][j_inner_outer] = 0.0f;  // insn
        }
        const int k_outer_full = n / 8;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
                a_fetch[8 * a_dim_0_outer + ty][tx] = a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * k_outer + tx];  // fetch_a
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                b_fetch[ty][8 * b_dim_1_outer + tx] = b[(8 * k_outer + ty) * n + 16 * bx + 8 * b_dim_1_outer + tx];  // fetch_b
            __syncthreads();
            for (int k_inner = 0; k_inner < 8; ++k_inner) {
                #pragma unroll
                for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                        acc[i_inner_outer][j_inner_outer] += a_fetch[8 * i_inner_outer + ty][k_inner] * b_fetch[k_inner][8 * j_inner_outer + tx];  // insn
                }
            }
            __syncthreads();
        }
        for (int k_outer = k_outer_full; k_outer < (n + 7) / 8; ++k_outer) {
            if (8 * k_outer + tx < n) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
                    a_fetch[8 * a_dim_0_outer + ty][tx] = a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * k_outer + tx];  // fetch_a
            }
            if (8 * k_outer + ty < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                    b_fetch[ty][8 * b_dim_1_outer + tx] = b[(8 * k_outer + ty) * n + 16 * bx + 8 * b_dim_1_outer + tx];  // fetch_b
            }
            __syncthreads();
            for (int k_inner = 0; k_inner < n - 8 * k_outer; ++k_inner) {
                #pragma unroll
                for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                        acc[i_inner_outer][j_inner_outer] += a_fetch[8 * i_inner_outer + ty][k_inner] * b_fetch[k_inner][8 * j_inner_outer + tx];  // insn
                }
            }
            __syncthreads();
        }
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                c[(32 * by + 8 * i_inner_outer + ty) * n + 16 * bx + 8 * j_inner_outer + tx] = acc[i_inner_outer][j_inner_outer];  // insn
        }
    } else {
        float acc[4][2];
        if (32 * by + ty < n && 16 * bx + tx < n) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                if (32 * by + 8 * i_inner_outer + ty < n) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer) {
                        if (16 * bx + 8 * j_inner_outer + tx < n)
                            acc[i_inner_outer][j_inner_outer] = 0.0f;  // insn
                    }
                }
            }
        }
        for (int k_outer = 0; k_outer < (n + 7) / 8; ++k_outer) {
            if (32 * by + ty < n && 8 * k_outer + tx < n) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                    if (32 * by + 8 * a_dim_0_outer + ty < n)
                        a_fetch[8 * a_dim_0_outer + ty][tx] = a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * k_outer + tx];  // fetch_a
                }
            }
            if (8 * k_outer + ty < n && 16 * bx + tx < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer) {
                    if (16 * bx + 8 * b_dim_1_outer + tx < n)
                        b_fetch[ty][8 * b_dim_1_outer + tx] = b[(8 * k_outer + ty) * n + 16 * bx + 8 * b_dim_1_outer + tx];  // fetch_b
                }
            }
            __syncthreads();
            if (32 * by + ty < n && 16 * bx + tx < n) {
                for (int k_inner = 0; k_inner < min(8, n - 8 * k_outer); ++k_inner) {
                    #pragma unroll
                    for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                        if (32 * by + 8 * i_inner_outer + ty < n) {
                            #pragma unroll
                            for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer) {
                                if (16 * bx + 8 * j_inner_outer + tx < n)
                                    acc[i_inner_outer][j_inner_outer] += a_fetch[8 * i_inner_outer + ty][k_inner] * b_fetch[k_inner][8 * j_inner_outer + tx];  // insn
                            }
                        }
                    }
                }
            }
            __syncthreads();
        }
        if (32 * by + ty < n && 16 * bx + tx < n) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 32 * by + 8 * i_inner_outer + ty;
                if (i < n) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer) {
                        const int j = 16 * bx + 8 * j_inner_outer + tx;
                        if (j < n)
                            c[i * n + j] = acc[i_inner_outer][j_inner_outer];  // insn
                    }
                }
            }
        }
    }
}
