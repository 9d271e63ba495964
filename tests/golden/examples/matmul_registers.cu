// matmul_registers computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_registers, grid ((n + 63) / 64, (m + 63) / 64), block (16, 16)
// Assumes: m >= 1; n >= 1; p >= 1; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, n + 143, m + 143, p + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) matmul_registers(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[64][16];
    __shared__ float b_fetch[16][64];
    if (64 * by + 63 < m && 64 * bx + 63 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc[4][4];
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer)
                acc[i_inner_outer][j_inner_outer] = 0.0f;
        }
        // Full tiles, without tests; the others begin at k_outer_full.
        const int k_outer_full = p / 16;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
                a_fetch[16 * a_dim_0_outer + ty][tx] =
                    a[(64 * by + 16 * a_dim_0_outer + ty) * p + 16 * k_outer + tx];
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer)
                b_fetch[ty][16 * b_dim_1_outer + tx] =
                    b[(16 * k_outer + ty) * n + 64 * bx + 16 * b_dim_1_outer + tx];
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            for (int k_inner = 0; k_inner < 16; ++k_inner) {
                #pragma unroll
                for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer)
                        acc[i_inner_outer][j_inner_outer] +=
                            a_fetch[16 * i_inner_outer + ty][k_inner]
                                * b_fetch[k_inner][16 * j_inner_outer + tx];
                }
            }
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
        }
        for (int k_outer = k_outer_full; k_outer < (p + 15) / 16; ++k_outer) {
            if (16 * k_outer + tx < p) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
                    a_fetch[16 * a_dim_0_outer + ty][tx] =
                        a[(64 * by + 16 * a_dim_0_outer + ty) * p + 16 * k_outer + tx];
            }
            if (16 * k_outer + ty < p) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer)
                    b_fetch[ty][16 * b_dim_1_outer + tx] =
                        b[(16 * k_outer + ty) * n + 64 * bx + 16 * b_dim_1_outer + tx];
            }
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            for (int k_inner = 0; k_inner < p - 16 * k_outer; ++k_inner) {
                #pragma unroll
                for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer)
                        acc[i_inner_outer][j_inner_outer] +=
                            a_fetch[16 * i_inner_outer + ty][k_inner]
                                * b_fetch[k_inner][16 * j_inner_outer + tx];
                }
            }
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
        }
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer)
                c[(64 * by + 16 * i_inner_outer + ty) * n + 64 * bx + 16 * j_inner_outer + tx] =
                    acc[i_inner_outer][j_inner_outer];
        }
    } else {
        float acc[4][4];
        if (64 * by + ty < m && 64 * bx + tx < n) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                if (64 * by + 16 * i_inner_outer + ty < m) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                        if (64 * bx + 16 * j_inner_outer + tx < n)
                            acc[i_inner_outer][j_inner_outer] = 0.0f;
                    }
                }
            }
        }
        for (int k_outer = 0; k_outer < (p + 15) / 16; ++k_outer) {
            if (64 * by + ty < m && 16 * k_outer + tx < p) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                    if (64 * by + 16 * a_dim_0_outer + ty < m)
                        a_fetch[16 * a_dim_0_outer + ty][tx] =
                            a[(64 * by + 16 * a_dim_0_outer + ty) * p + 16 * k_outer + tx];
                }
            }
            if (16 * k_outer + ty < p && 64 * bx + tx < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer) {
                    if (64 * bx + 16 * b_dim_1_outer + tx < n)
                        b_fetch[ty][16 * b_dim_1_outer + tx] =
                            b[(16 * k_outer + ty) * n + 64 * bx + 16 * b_dim_1_outer + tx];
                }
            }
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            if (64 * by + ty < m && 64 * bx + tx < n) {
                for (int k_inner = 0; k_inner < min(16, p - 16 * k_outer); ++k_inner) {
                    #pragma unroll
                    for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                        if (64 * by + 16 * i_inner_outer + ty < m) {
                            #pragma unroll
                            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                                if (64 * bx + 16 * j_inner_outer + tx < n)
                                    acc[i_inner_outer][j_inner_outer] +=
                                        a_fetch[16 * i_inner_outer + ty][k_inner]
                                            * b_fetch[k_inner][16 * j_inner_outer + tx];
                            }
                        }
                    }
                }
            }
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
        }
        if (64 * by + ty < m && 64 * bx + tx < n) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 64 * by + 16 * i_inner_outer + ty;
                if (i < m) {
                    #pragma unroll
                    for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                        const int j = 64 * bx + 16 * j_inner_outer + tx;
                        if (j < n)
                            c[i * n + j] = acc[i_inner_outer][j_inner_outer];
                    }
                }
            }
        }
    }
}
