// product computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: product, grid ((n + 15) / 16, (n + 31) / 32), block (8, 8)
// Assumes: n >= 0; c overlaps no other array
// Indices have 32 bits: n*n, n + 71 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) product(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[32][8];
    __shared__ float b_fetch[8][16];
    if (32 * by + 31 < n && 16 * bx + 15 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc[4][2];
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                acc[i_inner_outer][j_inner_outer] = 0.0f;
        }
        // Full tiles, without tests; the others begin at k_outer_full.
        const int k_outer_full = n / 8;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
                a_fetch[8 * a_dim_0_outer + ty][tx] =
                    a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * k_outer + tx];
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                b_fetch[ty][8 * b_dim_1_outer + tx] =
                    b[(8 * k_outer + ty) * n + 16 * bx + 8 * b_dim_1_outer + tx];
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            for (int k_inner = 0; k_inner < 8; ++k_inner) {
                #pragma unroll
                for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                        acc[i_inner_outer][j_inner_outer] +=
                            a_fetch[8 * i_inner_outer + ty][k_inner]
                                * b_fetch[k_inner][8 * j_inner_outer + tx];
                }
            }
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
        }
        for (int k_outer = k_outer_full; k_outer < (n + 7) / 8; ++k_outer) {
            if (8 * k_outer + tx < n) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
                    a_fetch[8 * a_dim_0_outer + ty][tx] =
                        a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * k_outer + tx];
            }
            if (8 * k_outer + ty < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                    b_fetch[ty][8 * b_dim_1_outer + tx] =
                        b[(8 * k_outer + ty) * n + 16 * bx + 8 * b_dim_1_outer + tx];
            }
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            for (int k_inner = 0; k_inner < n - 8 * k_outer; ++k_inner) {
                #pragma unroll
                for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                        acc[i_inner_outer][j_inner_outer] +=
                            a_fetch[8 * i_inner_outer + ty][k_inner]
                                * b_fetch[k_inner][8 * j_inner_outer + tx];
                }
            }
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
        }
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                c[(32 * by + 8 * i_inner_outer + ty) * n + 16 * bx + 8 * j_inner_outer + tx] =
                    acc[i_inner_outer][j_inner_outer];
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
                            acc[i_inner_outer][j_inner_outer] = 0.0f;
                    }
                }
            }
        }
        for (int k_outer = 0; k_outer < (n + 7) / 8; ++k_outer) {
            if (32 * by + ty < n && 8 * k_outer + tx < n) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                    if (32 * by + 8 * a_dim_0_outer + ty < n)
                        a_fetch[8 * a_dim_0_outer + ty][tx] =
                            a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * k_outer + tx];
                }
            }
            if (8 * k_outer + ty < n && 16 * bx + tx < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer) {
                    if (16 * bx + 8 * b_dim_1_outer + tx < n)
                        b_fetch[ty][8 * b_dim_1_outer + tx] =
                            b[(8 * k_outer + ty) * n + 16 * bx + 8 * b_dim_1_outer + tx];
                }
            }
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            if (32 * by + ty < n && 16 * bx + tx < n) {
                for (int k_inner = 0; k_inner < min(8, n - 8 * k_outer); ++k_inner) {
                    #pragma unroll
                    for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                        if (32 * by + 8 * i_inner_outer + ty < n) {
                            #pragma unroll
                            for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer) {
                                if (16 * bx + 8 * j_inner_outer + tx < n)
                                    acc[i_inner_outer][j_inner_outer] +=
                                        a_fetch[8 * i_inner_outer + ty][k_inner]
                                            * b_fetch[k_inner][8 * j_inner_outer + tx];
                            }
                        }
                    }
                }
            }
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
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
                            c[i * n + j] = acc[i_inner_outer][j_inner_outer];
                    }
                }
            }
        }
    }
}
