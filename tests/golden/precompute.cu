extern "C" __global__ void __launch_bounds__(16) rule(const float *__restrict__ a, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float f_value[18];
    if (16 * bx + 17 < n) {
        #pragma unroll
        for (int f_dim_0_outer = 0; f_dim_0_outer < 2; ++f_dim_0_outer) {
            if (16 * f_dim_0_outer + tx < 18)
                f_value[16 * f_dim_0_outer + tx] = 2.0f * a[16 * bx + 16 * f_dim_0_outer + tx] + 1.0f;  // compute_f
        }
        __syncwarp();
        out[16 * bx + tx] = f_value[tx] + f_value[tx + 2];  // insn
    } else {
        if (16 * bx + tx < n) {
            #pragma unroll
            for (int f_dim_0_outer = 0; f_dim_0_outer < 2; ++f_dim_0_outer) {
                if (16 * f_dim_0_outer + tx < 18 && 16 * bx + 16 * f_dim_0_outer + tx < n)
                    f_value[16 * f_dim_0_outer + tx] = 2.0f * a[16 * bx + 16 * f_dim_0_outer + tx] + 1.0f;  // compute_f
            }
        }
        __syncwarp();
        if (16 * bx + tx + 2 < n)
            out[16 * bx + tx] = f_value[tx] + f_value[tx + 2];  // insn
    }
}
