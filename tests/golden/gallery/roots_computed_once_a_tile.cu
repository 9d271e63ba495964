// roots_computed_once_a_tile computes
//     for i in [0, n)
//         out[i] = r_subst(i) + r_subst(i + 1) + r_subst(i + 2)
// Sizes: a: (n + 2), out: n
// Launch: roots_computed_once_a_tile, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; out overlaps no other array
// Indices have 32 bits: n + 2, n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) roots_computed_once_a_tile(
    const float *__restrict__ a,
    float *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    __shared__ float r_subst_value[18];
    if (16 * bx + 15 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int r_subst_dim_0_outer = 0; r_subst_dim_0_outer < 2; ++r_subst_dim_0_outer) {
            if (16 * r_subst_dim_0_outer + tx < 18)
                r_subst_value[16 * r_subst_dim_0_outer + tx] =
                    sqrtf(a[i + 16 * r_subst_dim_0_outer]);
        }
        __syncwarp();  // r_subst_value: reads follow writes
        out[i] = r_subst_value[tx] + r_subst_value[tx + 1] + r_subst_value[tx + 2];
    } else {
        if (i <= n + 1) {
            #pragma unroll
            for (int r_subst_dim_0_outer = 0; r_subst_dim_0_outer < 2; ++r_subst_dim_0_outer) {
                if (16 * r_subst_dim_0_outer + tx < 18 && i + 16 * r_subst_dim_0_outer <= n + 1)
                    r_subst_value[16 * r_subst_dim_0_outer + tx] =
                        sqrtf(a[i + 16 * r_subst_dim_0_outer]);
            }
        }
        __syncwarp();  // r_subst_value: reads follow writes
        if (i < n)
            out[i] = r_subst_value[tx] + r_subst_value[tx + 1] + r_subst_value[tx + 2];
    }
}
