// stencil_1d computes
//     for i in [0, n)
//         d[i] = sum(r, weight[r]*u[i + r]), r in [0, 9)
// Sizes: u: (n + 8), d: n
// Launch: stencil_1d, grid ((n + 255) / 256), block (256)
// Assumes: n >= 1; d overlaps no other array
// Indices have 32 bits: n + 8, n, n + 1023 must not exceed 2147483647

__constant__ float stencil_1d_weight[9] = {
    -0x1.d41d42p-10f, 0x1.a01a02p-6f, -0x1.99999ap-3f, 0x1.99999ap+0f, -0x1.6c71c8p+1f,
        0x1.99999ap+0f, -0x1.99999ap-3f, 0x1.a01a02p-6f,
    -0x1.d41d42p-10f,
};

extern "C" __global__ void __launch_bounds__(256) stencil_1d(
    const float *__restrict__ u,
    float *__restrict__ d,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 256 * bx + tx;
    __shared__ float u_fetch[264];
    if (256 * bx + 255 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
            if (256 * u_dim_0_outer + tx < 264)
                u_fetch[256 * u_dim_0_outer + tx] = u[i + 256 * u_dim_0_outer];
        }
        float acc = 0.0f;
        __syncthreads();  // u_fetch: reads follow writes
        #pragma unroll
        for (int r = 0; r < 9; ++r)
            acc += stencil_1d_weight[r] * u_fetch[r + tx];
        d[i] = acc;
    } else {
        if (i <= n + 7) {
            #pragma unroll
            for (int u_dim_0_outer = 0; u_dim_0_outer < 2; ++u_dim_0_outer) {
                if (256 * u_dim_0_outer + tx < 264 && i + 256 * u_dim_0_outer <= n + 7)
                    u_fetch[256 * u_dim_0_outer + tx] = u[i + 256 * u_dim_0_outer];
            }
        }
        float acc = 0.0f;
        __syncthreads();  // u_fetch: reads follow writes
        if (i < n) {
            #pragma unroll
            for (int r = 0; r < 9; ++r)
                acc += stencil_1d_weight[r] * u_fetch[r + tx];
            d[i] = acc;
        }
    }
}
