extern "C" __global__ void __launch_bounds__(16) rule(const float *__restrict__ a, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    __shared__ float f_value[18];
    if (16 * bx + 17 < n) {
        #pragma unroll
        for (int f_dim_0_outer = 0; f_dim_0_outer < 2; ++f_dim_0_outer) {
            if (16 * f_dim_0_outer + tx < 18)
                f_value[16 * f_dim_0_outer + tx] = 2.0f * a[i + 16 * f_dim_0_outer] + 1.0f;  // compute_f
        }
        __syncwarp();
        out[i] = f_value[tx] + f_value[tx + 2];  // insn
    } else {
        if (i < n) {
            #pragma unroll
            for (int f_dim_0_outer = 0; f_dim_0_outer < 2; ++f_dim_0_outer) {
                if (16 * f_dim_0_outer + tx < 18 && i + 16 * f_dim_0_outer < n)
                    f_value[16 * f_dim_0_outer + tx] = 2.0f * a[i + 16 * f_dim_0_outer] + 1.0f;  // compute_f
            }
        }
        __syncwarp();
        if (i + 2 < n)
            out[i] = f_value[tx] + f_value[tx + 2];  // insn
    }
}
