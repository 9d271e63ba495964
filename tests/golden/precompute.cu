// rule computes
//     for i in [0, n - 2)
//         out[i] = f(i) + f(i + 2)
// Sizes: a: n, out: (n - 2)
// Launch: rule, grid ((n + 13) / 16), block (16)
// Assumes: n >= 3; out overlaps no other array
// Indices have 32 bits: n, n - 2, n + 61 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) rule(
    const float *__restrict__ a,
    float *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    __shared__ float f_value[18];
    if (16 * bx + 17 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int f_dim_0_outer = 0; f_dim_0_outer < 2; ++f_dim_0_outer) {
            if (16 * f_dim_0_outer + tx < 18)
                f_value[16 * f_dim_0_outer + tx] = 2.0f * a[i + 16 * f_dim_0_outer] + 1.0f;
        }
        __syncwarp();  // f_value: reads follow writes
        out[i] = f_value[tx] + f_value[tx + 2];
    } else {
        if (i < n) {
            #pragma unroll
            for (int f_dim_0_outer = 0; f_dim_0_outer < 2; ++f_dim_0_outer) {
                if (16 * f_dim_0_outer + tx < 18 && i + 16 * f_dim_0_outer < n)
                    f_value[16 * f_dim_0_outer + tx] = 2.0f * a[i + 16 * f_dim_0_outer] + 1.0f;
            }
        }
        __syncwarp();  // f_value: reads follow writes
        if (i + 2 < n)
            out[i] = f_value[tx] + f_value[tx + 2];
    }
}
