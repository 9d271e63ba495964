extern "C" __global__ void __launch_bounds__(16) roots_computed_once_a_tile(const float *__restrict__ a, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    __shared__ float r_subst_value[18];
    if (16 * bx + 15 < n) {
        #pragma unroll
        for (int r_subst_dim_0_outer = 0; r_subst_dim_0_outer < 2; ++r_subst_dim_0_outer) {
            if (16 * r_subst_dim_0_outer + tx < 18)
                r_subst_value[16 * r_subst_dim_0_outer + tx] = sqrtf(a[i + 16 * r_subst_dim_0_outer]);  // compute_r_subst
        }
        __syncwarp();
        out[i] = r_subst_value[tx] + r_subst_value[tx + 1] + r_subst_value[tx + 2];  // insn_1
    } else {
        if (i <= n + 1) {
            #pragma unroll
            for (int r_subst_dim_0_outer = 0; r_subst_dim_0_outer < 2; ++r_subst_dim_0_outer) {
                if (16 * r_subst_dim_0_outer + tx < 18 && i + 16 * r_subst_dim_0_outer <= n + 1)
                    r_subst_value[16 * r_subst_dim_0_outer + tx] = sqrtf(a[i + 16 * r_subst_dim_0_outer]);  // compute_r_subst
            }
        }
        __syncwarp();
        if (i < n)
            out[i] = r_subst_value[tx] + r_subst_value[tx + 1] + r_subst_value[tx + 2];  // insn_1
    }
}
