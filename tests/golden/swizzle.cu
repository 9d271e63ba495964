// transpose computes
//     for i in [0, n), j in [0, n)
//         b[i, j] = a[j, i]
// Sizes: a: n x n, b: n x n
// Launch: transpose, grid ((n + 31) / 32, (n + 31) / 32), block (32, 8)
// Assumes: n >= 1; b overlaps no other array
// Indices have 32 bits: n*n, n + 71 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) transpose(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[32][32];
    if (32 * bx + 31 < n && 32 * by + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int offset = 8 * a_dim_0_outer + ty;
            a_fetch[offset][tx ^ offset] = a[(32 * bx + offset) * n + 32 * by + tx];
        }
        __syncthreads();  // a_fetch: reads follow writes
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
            b[(32 * by + 8 * i_inner_outer + ty) * n + 32 * bx + tx] =
                a_fetch[tx][(8 * i_inner_outer + ty) ^ tx];
    } else {
        if (32 * bx + ty < n && 32 * by + tx < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                if (32 * bx + 8 * a_dim_0_outer + ty < n) {
                    const int offset = 8 * a_dim_0_outer + ty;
                    a_fetch[offset][tx ^ offset] = a[(32 * bx + offset) * n + 32 * by + tx];
                }
            }
        }
        __syncthreads();  // a_fetch: reads follow writes
        if (32 * bx + tx < n) {
            for (int i_inner_outer = 0;
                    i_inner_outer < min(4, (n - ty + 7) / 8 - 4 * by);
                    ++i_inner_outer)
                b[(32 * by + 8 * i_inner_outer + ty) * n + 32 * bx + tx] =
                    a_fetch[tx][(8 * i_inner_outer + ty) ^ tx];
        }
    }
}
