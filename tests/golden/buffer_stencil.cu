// halo computes
//     for i in [1, n - 1)
//         out[i] = a[i - 1] + a[i + 1]
// Sizes: a: n, out: n
// Launch: halo, grid ((n + 6) / 8), block (8)
// Assumes: n >= 3; out overlaps no other array
// Indices have 32 bits: n, n + 30 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) halo(
    const float *__restrict__ a,
    float *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    __shared__ float a_fetch[10];
    __shared__ float out_buf[8];
    if (bx >= 1 && 8 * bx + 8 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            if (8 * a_dim_0_outer + tx < 10)
                a_fetch[8 * a_dim_0_outer + tx] = a[i + 8 * a_dim_0_outer - 1];
        }
        __syncwarp();  // a_fetch: reads follow writes
        out_buf[tx] = a_fetch[tx] + a_fetch[tx + 2];
        out[i] = out_buf[tx];
    } else {
        if (i <= n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                if (8 * a_dim_0_outer + tx < 10
                        && i + 8 * a_dim_0_outer >= 1
                        && i + 8 * a_dim_0_outer <= n)
                    a_fetch[8 * a_dim_0_outer + tx] = a[i + 8 * a_dim_0_outer - 1];
            }
        }
        __syncwarp();  // a_fetch: reads follow writes
        if (i >= 1 && i + 1 < n) {
            out_buf[tx] = a_fetch[tx] + a_fetch[tx + 2];
            out[i] = out_buf[tx];
        }
    }
}
