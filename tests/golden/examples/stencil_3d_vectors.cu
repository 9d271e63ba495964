// stencil_3d_vectors computes
//     for i in [1, m - 1), j in [1, n - 1), k in [0, n)
//         sum = around - 6*column(i, k)
//         v[i, j, k] = if(k > 0 and k < n - 1, sum, column(i, k))
// Sizes: u: m x n x n, v: m x n x n
// Launch: stencil_3d_vectors, grid ((n / 4 + 31) / 32, (n / 4 + 1) / 2, (m + 1) / 4), block (32, 8)
// Assumes: n % 4 == 0; m >= 3; n >= 4; u is aligned to 16 bytes; v is aligned to 16 bytes; v
//     overlaps no other array
// Indices have 32 bits: m*n*n, n + 255, m + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) stencil_3d_vectors(
    const float *__restrict__ u,
    float *__restrict__ v,
    int n,
    int m)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int j = 8 * by + ty + 1;
    if (4 * bz + 5 < m && 8 * by + 11 < n && 128 * bx + 127 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float sum[4];
        __align__(16) float queue[3][4];
        #pragma unroll
        for (int i_inner = -2; i_inner < 4; ++i_inner) {
            const int i = 4 * bz + i_inner + 1;
            *(float4 *)&queue[(i_inner + 2) % 3][0] =
                *(const float4 *)&u[(i + 1) * n * n + j * n + 128 * bx + 4 * tx];
            if (i_inner >= 0) {
                const float4 u_v = *(const float4 *)&u[i * n * n + (j - 1) * n + 128 * bx + 4 * tx];
                const float4 u_v_0 =
                    *(const float4 *)&u[i * n * n + (j + 1) * n + 128 * bx + 4 * tx];
                // sum
                sum[0] = u_v.x
                    + u_v_0.x
                    + (128 * bx + 4 * tx > 0 ? u[i * n * n + j * n + 128 * bx + 4 * tx - 1] : 0.0f)
                    + queue[(i_inner + 1) % 3][1]
                    + queue[i_inner % 3][0]
                    + queue[(i_inner + 2) % 3][0]
                    - 6.0f * queue[(i_inner + 1) % 3][0];
                // sum
                sum[1] = u_v.y
                    + u_v_0.y
                    + queue[(i_inner + 1) % 3][0]
                    + queue[(i_inner + 1) % 3][2]
                    + queue[i_inner % 3][1]
                    + queue[(i_inner + 2) % 3][1]
                    - 6.0f * queue[(i_inner + 1) % 3][1];
                // sum
                sum[2] = u_v.z
                    + u_v_0.z
                    + queue[(i_inner + 1) % 3][1]
                    + queue[(i_inner + 1) % 3][3]
                    + queue[i_inner % 3][2]
                    + queue[(i_inner + 2) % 3][2]
                    - 6.0f * queue[(i_inner + 1) % 3][2];
                // sum
                sum[3] = u_v.w
                    + u_v_0.w
                    + queue[(i_inner + 1) % 3][2]
                    + (
                        128 * bx + 4 * tx + 3 < n - 1
                        ? u[i * n * n + j * n + 128 * bx + 4 * tx + 4]
                        : 0.0f)
                    + queue[i_inner % 3][3]
                    + queue[(i_inner + 2) % 3][3]
                    - 6.0f * queue[(i_inner + 1) % 3][3];
                float4 v_v;
                v_v.x = 128 * bx + 4 * tx > 0 ? sum[0] : queue[(i_inner + 1) % 3][0];
                v_v.y = sum[1];
                v_v.z = sum[2];
                v_v.w = 128 * bx + 4 * tx + 3 < n - 1 ? sum[3] : queue[(i_inner + 1) % 3][3];
                *(float4 *)&v[i * n * n + j * n + 128 * bx + 4 * tx] = v_v;  // store
            }
        }
    } else if (j + 1 < n && 128 * bx + 4 * tx + 3 < n) {
        float sum[4];
        __align__(16) float queue[3][4];
        #pragma unroll
        for (int i_inner = -2; i_inner < 4; ++i_inner) {
            const int i = 4 * bz + i_inner + 1;
            if (i + 1 < m) {
                *(float4 *)&queue[(i_inner + 2) % 3][0] =
                    *(const float4 *)&u[(i + 1) * n * n + j * n + 128 * bx + 4 * tx];
                if (i_inner >= 0) {
                    const float4 u_v =
                        *(const float4 *)&u[i * n * n + (j - 1) * n + 128 * bx + 4 * tx];
                    const float4 u_v_0 =
                        *(const float4 *)&u[i * n * n + (j + 1) * n + 128 * bx + 4 * tx];
                    // sum
                    sum[0] = u_v.x
                        + u_v_0.x
                        + (
                            128 * bx + 4 * tx > 0
                            ? u[i * n * n + j * n + 128 * bx + 4 * tx - 1]
                            : 0.0f)
                        + queue[(i_inner + 1) % 3][1]
                        + queue[i_inner % 3][0]
                        + queue[(i_inner + 2) % 3][0]
                        - 6.0f * queue[(i_inner + 1) % 3][0];
                    // sum
                    sum[1] = u_v.y
                        + u_v_0.y
                        + queue[(i_inner + 1) % 3][0]
                        + queue[(i_inner + 1) % 3][2]
                        + queue[i_inner % 3][1]
                        + queue[(i_inner + 2) % 3][1]
                        - 6.0f * queue[(i_inner + 1) % 3][1];
                    // sum
                    sum[2] = u_v.z
                        + u_v_0.z
                        + queue[(i_inner + 1) % 3][1]
                        + queue[(i_inner + 1) % 3][3]
                        + queue[i_inner % 3][2]
                        + queue[(i_inner + 2) % 3][2]
                        - 6.0f * queue[(i_inner + 1) % 3][2];
                    // sum
                    sum[3] = u_v.w
                        + u_v_0.w
                        + queue[(i_inner + 1) % 3][2]
                        + (
                            128 * bx + 4 * tx + 3 < n - 1
                            ? u[i * n * n + j * n + 128 * bx + 4 * tx + 4]
                            : 0.0f)
                        + queue[i_inner % 3][3]
                        + queue[(i_inner + 2) % 3][3]
                        - 6.0f * queue[(i_inner + 1) % 3][3];
                    float4 v_v;
                    v_v.x = 128 * bx + 4 * tx > 0 ? sum[0] : queue[(i_inner + 1) % 3][0];
                    v_v.y = sum[1];
                    v_v.z = sum[2];
                    v_v.w = 128 * bx + 4 * tx + 3 < n - 1 ? sum[3] : queue[(i_inner + 1) % 3][3];
                    *(float4 *)&v[i * n * n + j * n + 128 * bx + 4 * tx] = v_v;  // store
                }
            }
        }
    }
}
