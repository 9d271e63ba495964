extern "C" __global__ void __launch_bounds__(256) stencil_3d_vectors(const float *__restrict__ u, float *__restrict__ v, int n, int m)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int j = 8 * by + ty + 1;
    if (4 * bz + 5 < m && 8 * by + 11 < n && 128 * bx + 127 < n) {
        __align__(16) float sum[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 4 * bz + i_inner + 1;
            const float4 u_v = *(const float4 *)&u[(i - 1) * n * n + j * n + 128 * bx + 4 * tx];
            const float4 u_v_0 = *(const float4 *)&u[(i + 1) * n * n + j * n + 128 * bx + 4 * tx];
            const float4 u_v_1 = *(const float4 *)&u[i * n * n + (j - 1) * n + 128 * bx + 4 * tx];
            const float4 u_v_2 = *(const float4 *)&u[i * n * n + (j + 1) * n + 128 * bx + 4 * tx];
            const float4 u_v_3 = *(const float4 *)&u[i * n * n + j * n + 128 * bx + 4 * tx];
            sum[0] = u_v.x + u_v_0.x + u_v_1.x + u_v_2.x + (128 * bx + 4 * tx > 0 ? u[i * n * n + j * n + 128 * bx + 4 * tx - 1] : 0.0f) + u_v_3.y - 6.0f * u_v_3.x;  // sum
            sum[1] = u_v.y + u_v_0.y + u_v_1.y + u_v_2.y + u_v_3.x + u_v_3.z - 6.0f * u_v_3.y;  // sum
            sum[2] = u_v.z + u_v_0.z + u_v_1.z + u_v_2.z + u_v_3.y + u_v_3.w - 6.0f * u_v_3.z;  // sum
            sum[3] = u_v.w + u_v_0.w + u_v_1.w + u_v_2.w + u_v_3.z + (128 * bx + 4 * tx + 3 < n - 1 ? u[i * n * n + j * n + 128 * bx + 4 * tx + 4] : 0.0f) - 6.0f * u_v_3.w;  // sum
            if (32 * bx + tx >= 1 && 128 * bx + 4 * tx + 7 < n) {
                *(float4 *)&v[i * n * n + j * n + 128 * bx + 4 * tx] = *(const float4 *)&sum[0];  // store
            } else {
                #pragma unroll
                for (int k_inner_inner = 0; k_inner_inner < 4; ++k_inner_inner) {
                    const int k = 128 * bx + 4 * tx + k_inner_inner;
                    if (k >= 1 && k + 1 < n)
                        v[i * n * n + j * n + k] = sum[k_inner_inner];  // store
                }
            }
        }
    } else if (j + 1 < n && 128 * bx + 4 * tx + 3 < n) {
        __align__(16) float sum[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 4 * bz + i_inner + 1;
            if (i + 1 < m) {
                const float4 u_v = *(const float4 *)&u[(i - 1) * n * n + j * n + 128 * bx + 4 * tx];
                const float4 u_v_0 = *(const float4 *)&u[(i + 1) * n * n + j * n + 128 * bx + 4 * tx];
                const float4 u_v_1 = *(const float4 *)&u[i * n * n + (j - 1) * n + 128 * bx + 4 * tx];
                const float4 u_v_2 = *(const float4 *)&u[i * n * n + (j + 1) * n + 128 * bx + 4 * tx];
                const float4 u_v_3 = *(const float4 *)&u[i * n * n + j * n + 128 * bx + 4 * tx];
                sum[0] = u_v.x + u_v_0.x + u_v_1.x + u_v_2.x + (128 * bx + 4 * tx > 0 ? u[i * n * n + j * n + 128 * bx + 4 * tx - 1] : 0.0f) + u_v_3.y - 6.0f * u_v_3.x;  // sum
                sum[1] = u_v.y + u_v_0.y + u_v_1.y + u_v_2.y + u_v_3.x + u_v_3.z - 6.0f * u_v_3.y;  // sum
                sum[2] = u_v.z + u_v_0.z + u_v_1.z + u_v_2.z + u_v_3.y + u_v_3.w - 6.0f * u_v_3.z;  // sum
                sum[3] = u_v.w + u_v_0.w + u_v_1.w + u_v_2.w + u_v_3.z + (128 * bx + 4 * tx + 3 < n - 1 ? u[i * n * n + j * n + 128 * bx + 4 * tx + 4] : 0.0f) - 6.0f * u_v_3.w;  // sum
                if (32 * bx + tx >= 1 && 128 * bx + 4 * tx + 7 < n) {
                    *(float4 *)&v[i * n * n + j * n + 128 * bx + 4 * tx] = *(const float4 *)&sum[0];  // store
                } else {
                    #pragma unroll
                    for (int k_inner_inner = 0; k_inner_inner < 4; ++k_inner_inner) {
                        const int k = 128 * bx + 4 * tx + k_inner_inner;
                        if (k >= 1 && k + 1 < n)
                            v[i * n * n + j * n + k] = sum[k_inner_inner];  // store
                    }
                }
            }
        }
    }
}
