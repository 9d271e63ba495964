// turned computes
//     for i in [0, n), j in [0, n)
//         b[i, j] = a[j, i]
// Sizes: a: n x n, b: n x n
// Launch: turned, grid ((n + 15) / 16, (n + 31) / 32), block (128)
// Assumes: n >= 1; b overlaps no other array
// Indices have 32 bits: n*n, n + 71 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) turned(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j_inner = tx % 16, a_dim_1 = tx % 32, i_inner_inner = tx / 16,
        a_dim_0_inner = tx / 32;
    const int j = 16 * bx + j_inner;
    __shared__ float a_fetch[16][32];
    if (16 * bx + 15 < n && 32 * by + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int offset = 4 * a_dim_0_outer + a_dim_0_inner;
            a_fetch[offset][a_dim_1] = a[(16 * bx + offset) * n + 32 * by + a_dim_1];
        }
        __syncthreads();  // a_fetch: reads follow writes
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            const int offset = 8 * i_inner_outer + i_inner_inner;
            b[(32 * by + offset) * n + j] = a_fetch[j_inner][offset];
        }
    } else {
        if (16 * bx + a_dim_0_inner < n && 32 * by + a_dim_1 < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                const int a_index = 16 * bx + 4 * a_dim_0_outer + a_dim_0_inner;
                if (a_index < n)
                    a_fetch[4 * a_dim_0_outer + a_dim_0_inner][a_dim_1] =
                        a[a_index * n + 32 * by + a_dim_1];
            }
        }
        __syncthreads();  // a_fetch: reads follow writes
        if (j < n) {
            for (int i_inner_outer = 0;
                    i_inner_outer < min(4, (n - i_inner_inner + 7) / 8 - 4 * by);
                    ++i_inner_outer) {
                const int offset = 8 * i_inner_outer + i_inner_inner;
                b[(32 * by + offset) * n + j] = a_fetch[j_inner][offset];
            }
        }
    }
}
