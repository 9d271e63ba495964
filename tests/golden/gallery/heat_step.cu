// heat_step computes
//     for i in [0, n)
//         v[i] = u[i + 1] + 0.25*(u[i + 2] - 2*u[i + 1] + u[i])
// Sizes: u: (n + 2), v: n
// Launch: heat_step, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; v overlaps no other array
// Indices have 32 bits: n + 2, n, n + 127 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) heat_step(
    const float *__restrict__ u,
    float *__restrict__ v,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    __shared__ float u_fetch[34];
    if (32 * bx + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
            if (32 * u_dim_0_outer + tx < 34)
                u_fetch[32 * u_dim_0_outer + tx] = u[i + 32 * u_dim_0_outer];
        }
        __syncwarp();  // u_fetch: reads follow writes
        v[i] = u_fetch[tx + 1] + 0.25f * (u_fetch[tx + 2] - 2.0f * u_fetch[tx + 1] + u_fetch[tx]);
    } else {
        if (i <= n + 1) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
                if (32 * u_dim_0_outer + tx < 34 && i + 32 * u_dim_0_outer <= n + 1)
                    u_fetch[32 * u_dim_0_outer + tx] = u[i + 32 * u_dim_0_outer];
            }
        }
        __syncwarp();  // u_fetch: reads follow writes
        if (i < n)
            v[i] =
                u_fetch[tx + 1] + 0.25f * (u_fetch[tx + 2] - 2.0f * u_fetch[tx + 1] + u_fetch[tx]);
    }
}
