extern "C" __global__ void __launch_bounds__(16) blur(const float *__restrict__ a, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float a_fetch[18];
    if (bx >= 1 && 16 * bx + 16 < n) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            if (16 * a_dim_0_outer + tx < 18)
                a_fetch[16 * a_dim_0_outer + tx] = a[16 * bx + 16 * a_dim_0_outer + tx - 1];  // fetch_a
        }
        __syncwarp();
        out[16 * bx + tx] = a_fetch[tx] + a_fetch[tx + 1] + a_fetch[tx + 2];  // insn
    } else {
        if (16 * bx + tx <= n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                if (16 * a_dim_0_outer + tx < 18 && 16 * bx + 16 * a_dim_0_outer + tx >= 1 && 16 * bx + 16 * a_dim_0_outer + tx <= n)
                    a_fetch[16 * a_dim_0_outer + tx] = a[16 * bx + 16 * a_dim_0_outer + tx - 1];  // fetch_a
            }
        }
        __syncwarp();
        if (16 * bx + tx >= 1 && 16 * bx + tx + 1 < n)
            out[16 * bx + tx] = a_fetch[tx] + a_fetch[tx + 1] + a_fetch[tx + 2];  // insn
    }
}
