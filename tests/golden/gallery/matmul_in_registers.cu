// matmul_in_registers computes
//     for i in [0, n), j in [0, n), k in [0, n)
//         c[i, j] = c[i, j] + a[i, k]*b[k, j]
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: matmul_in_registers, grid ((n + 7) / 8, (n + 7) / 8), block (4, 4)
// Assumes: n >= 0; c overlaps no other array
// Indices have 32 bits: n*n, n + 19 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) matmul_in_registers(
    const float *a,
    const float *b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[8][4];
    __shared__ float b_fetch[4][8];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float c_buf[2][2];
        #pragma unroll
        for (int c_buf_init_0 = 0; c_buf_init_0 < 2; ++c_buf_init_0) {
            #pragma unroll
            for (int c_buf_init_1 = 0; c_buf_init_1 < 2; ++c_buf_init_1)
                c_buf[c_buf_init_0][c_buf_init_1] =
                    c[(8 * by + 4 * c_buf_init_0 + ty) * n + 8 * bx + 4 * c_buf_init_1 + tx];
        }
        // Full tiles, without tests; the others begin at kb_full.
        const int kb_full = n / 4;
        for (int kb = 0; kb < kb_full; ++kb) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
                a_fetch[4 * a_dim_0_outer + ty][tx] =
                    a[(8 * by + 4 * a_dim_0_outer + ty) * n + 4 * kb + tx];
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                b_fetch[ty][4 * b_dim_1_outer + tx] =
                    b[(4 * kb + ty) * n + 8 * bx + 4 * b_dim_1_outer + tx];
            __syncwarp();  // a_fetch, b_fetch: reads follow writes
            for (int kt = 0; kt < 4; ++kt) {
                #pragma unroll
                for (int ir = 0; ir < 2; ++ir) {
                    #pragma unroll
                    for (int jr = 0; jr < 2; ++jr)
                        c_buf[ir][jr] += a_fetch[4 * ir + ty][kt] * b_fetch[kt][4 * jr + tx];
                }
            }
            __syncwarp();  // a_fetch, b_fetch: writes follow reads
        }
        for (int kb = kb_full; kb < (n + 3) / 4; ++kb) {
            if (4 * kb + tx < n) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
                    a_fetch[4 * a_dim_0_outer + ty][tx] =
                        a[(8 * by + 4 * a_dim_0_outer + ty) * n + 4 * kb + tx];
            }
            if (4 * kb + ty < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                    b_fetch[ty][4 * b_dim_1_outer + tx] =
                        b[(4 * kb + ty) * n + 8 * bx + 4 * b_dim_1_outer + tx];
            }
            __syncwarp();  // a_fetch, b_fetch: reads follow writes
            for (int kt = 0; kt < n - 4 * kb; ++kt) {
                #pragma unroll
                for (int ir = 0; ir < 2; ++ir) {
                    #pragma unroll
                    for (int jr = 0; jr < 2; ++jr)
                        c_buf[ir][jr] += a_fetch[4 * ir + ty][kt] * b_fetch[kt][4 * jr + tx];
                }
            }
            __syncwarp();  // a_fetch, b_fetch: writes follow reads
        }
        #pragma unroll
        for (int c_buf_store_0 = 0; c_buf_store_0 < 2; ++c_buf_store_0) {
            #pragma unroll
            for (int c_buf_store_1 = 0; c_buf_store_1 < 2; ++c_buf_store_1)
                c[(8 * by + 4 * c_buf_store_0 + ty) * n + 8 * bx + 4 * c_buf_store_1 + tx] =
                    c_buf[c_buf_store_0][c_buf_store_1];
        }
    } else {
        float c_buf[2][2];
        if (8 * by + ty < n && 8 * bx + tx < n) {
            #pragma unroll
            for (int c_buf_init_0 = 0; c_buf_init_0 < 2; ++c_buf_init_0) {
                if (8 * by + 4 * c_buf_init_0 + ty < n) {
                    #pragma unroll
                    for (int c_buf_init_1 = 0; c_buf_init_1 < 2; ++c_buf_init_1) {
                        if (8 * bx + 4 * c_buf_init_1 + tx < n)
                            c_buf[c_buf_init_0][c_buf_init_1] = c[
                                (8 * by + 4 * c_buf_init_0 + ty) * n
                                + 8 * bx
                                + 4 * c_buf_init_1
                                + tx];
                    }
                }
            }
        }
        for (int kb = 0; kb < (n + 3) / 4; ++kb) {
            if (8 * by + ty < n && 4 * kb + tx < n) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                    if (8 * by + 4 * a_dim_0_outer + ty < n)
                        a_fetch[4 * a_dim_0_outer + ty][tx] =
                            a[(8 * by + 4 * a_dim_0_outer + ty) * n + 4 * kb + tx];
                }
            }
            if (4 * kb + ty < n && 8 * bx + tx < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer) {
                    if (8 * bx + 4 * b_dim_1_outer + tx < n)
                        b_fetch[ty][4 * b_dim_1_outer + tx] =
                            b[(4 * kb + ty) * n + 8 * bx + 4 * b_dim_1_outer + tx];
                }
            }
            __syncwarp();  // a_fetch, b_fetch: reads follow writes
            if (8 * by + ty < n && 8 * bx + tx < n) {
                for (int kt = 0; kt < min(4, n - 4 * kb); ++kt) {
                    #pragma unroll
                    for (int ir = 0; ir < 2; ++ir) {
                        if (8 * by + 4 * ir + ty < n) {
                            #pragma unroll
                            for (int jr = 0; jr < 2; ++jr) {
                                if (8 * bx + 4 * jr + tx < n)
                                    c_buf[ir][jr] +=
                                        a_fetch[4 * ir + ty][kt] * b_fetch[kt][4 * jr + tx];
                            }
                        }
                    }
                }
            }
            __syncwarp();  // a_fetch, b_fetch: writes follow reads
        }
        if (8 * by + ty < n && 8 * bx + tx < n) {
            #pragma unroll
            for (int c_buf_store_0 = 0; c_buf_store_0 < 2; ++c_buf_store_0) {
                if (8 * by + 4 * c_buf_store_0 + ty < n) {
                    #pragma unroll
                    for (int c_buf_store_1 = 0; c_buf_store_1 < 2; ++c_buf_store_1) {
                        if (8 * bx + 4 * c_buf_store_1 + tx < n)
                            c[
                                (8 * by + 4 * c_buf_store_0 + ty) * n
                                + 8 * bx
                                + 4 * c_buf_store_1
                                + tx] =
                                c_buf[c_buf_store_0][c_buf_store_1];
                    }
                }
            }
        }
    }
}
