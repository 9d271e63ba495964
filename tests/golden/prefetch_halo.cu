// blur computes
//     for i in [1, n - 1)
//         out[i] = a[i - 1] + a[i] + a[i + 1]
// Sizes: a: n, out: n
// Launch: blur, grid ((n + 14) / 16), block (16)
// Assumes: n >= 3; out overlaps no other array
// Indices have 32 bits: n, n + 62 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) blur(
    const float *__restrict__ a,
    float *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    __shared__ float a_fetch[18];
    if (bx >= 1 && 16 * bx + 16 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            if (16 * a_dim_0_outer + tx < 18)
                a_fetch[16 * a_dim_0_outer + tx] = a[i + 16 * a_dim_0_outer - 1];
        }
        __syncwarp();  // a_fetch: reads follow writes
        out[i] = a_fetch[tx] + a_fetch[tx + 1] + a_fetch[tx + 2];
    } else {
        if (i <= n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                if (16 * a_dim_0_outer + tx < 18
                        && i + 16 * a_dim_0_outer >= 1
                        && i + 16 * a_dim_0_outer <= n)
                    a_fetch[16 * a_dim_0_outer + tx] = a[i + 16 * a_dim_0_outer - 1];
            }
        }
        __syncwarp();  // a_fetch: reads follow writes
        if (i >= 1 && i + 1 < n)
            out[i] = a_fetch[tx] + a_fetch[tx + 1] + a_fetch[tx + 2];
    }
}
