// zero_padded_convolution_in_tiles computes
//     for i in [0, n)
//         b[i] = sum(k, if(i + k >= 1 and i + k <= n, w[k]*a[i + k - 1], 0)), k in [0, 3)
// Sizes: a: n, b: n, w: 3
// Launch: zero_padded_convolution_in_tiles, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) zero_padded_convolution_in_tiles(
    const float *__restrict__ a,
    float *__restrict__ b,
    const float *__restrict__ w,
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
        float acc = 0.0f;
        __syncwarp();  // a_fetch: reads follow writes
        for (int k = 0; k < 3; ++k)
            acc += w[k] * a_fetch[k + tx];
        b[i] = acc;
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
        float acc = 0.0f;
        __syncwarp();  // a_fetch: reads follow writes
        if (i < n) {
            for (int k = 0; k < 3; ++k)
                acc += i + k >= 1 && i + k <= n ? w[k] * a_fetch[k + tx] : 0.0f;
            b[i] = acc;
        }
    }
}
