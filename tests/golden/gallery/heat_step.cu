extern "C" __global__ void __launch_bounds__(32) heat_step(const float *__restrict__ u, float *__restrict__ v, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    __shared__ float u_fetch[34];
    if (32 * bx + 31 < n) {
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
            if (32 * u_dim_0_outer + tx < 34)
                u_fetch[32 * u_dim_0_outer + tx] = u[i + 32 * u_dim_0_outer];  // fetch_u
        }
        __syncwarp();
        v[i] = u_fetch[tx + 1] + 0.25f * (u_fetch[tx + 2] - 2.0f * u_fetch[tx + 1] + u_fetch[tx]);  // insn
    } else {
        if (i <= n + 1) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
                if (32 * u_dim_0_outer + tx < 34 && i + 32 * u_dim_0_outer <= n + 1)
                    u_fetch[32 * u_dim_0_outer + tx] = u[i + 32 * u_dim_0_outer];  // fetch_u
            }
        }
        __syncwarp();
        if (i < n)
            v[i] = u_fetch[tx + 1] + 0.25f * (u_fetch[tx + 2] - 2.0f * u_fetch[tx + 1] + u_fetch[tx]);  // insn
    }
}
