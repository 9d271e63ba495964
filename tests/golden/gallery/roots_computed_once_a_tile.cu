extern "C" __global__ void __launch_bounds__(16) roots_computed_once_a_tile(const float *__restrict__ a, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float r_subst_value[18];
    if (16 * bx + 15 < n) {
        #pragma unroll
        for (int r_subst_dim_0_outer = 0; r_subst_dim_0_outer < 2; ++r_subst_dim_0_outer) {
            if (16 * r_subst_dim_0_outer + tx < 18)
                r_subst_value[16 * r_subst_dim_0_outer + tx] = sqrtf(a[16 * bx + 16 * r_subst_dim_0_outer + tx]);  // compute_r_subst
        }
        __syncwarp();
        out[16 * bx + tx] = r_subst_value[tx] + r_subst_value[tx + 1] + r_subst_value[tx + 2];  // insn_1
    } else {
        if (16 * bx + tx <= n + 1) {
            #pragma unroll
            for (int r_subst_dim_0_outer = 0; r_subst_dim_0_outer < 2; ++r_subst_dim_0_outer) {
                if (16 * r_subst_dim_0_outer + tx < 18 && 16 * bx + 16 * r_subst_dim_0_outer + tx <= n + 1)
                    r_subst_value[16 * r_subst_dim_0_outer + tx] = sqrtf(a[16 * bx + 16 * r_subst_dim_0_outer + tx]);  // compute_r_subst
            }
        }
        __syncwarp();
        if (16 * bx + tx < n)
            out[16 * bx + tx] = r_subst_value[tx] + r_subst_value[tx + 1] + r_subst_value[tx + 2];  // insn_1
    }
}
