extern "C" __global__ void __launch_bounds__(256) spectral_laplacian(const float *__restrict__ u, float *__restrict__ lap, const float *__restrict__ g, const float *__restrict__ d, int elements)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int e = 4 * bx + tz;
    __shared__ float flux_r[4][8][8];
    __shared__ float flux_s[4][8][8];
    __shared__ float d_fetch[8][8];
    __shared__ float u_fetch[4][8][8];
    if (tz == 0)
        d_fetch[ty][tx] = d[ty * 8 + tx];  // fetch_d
    float acc = 0.0f;  // insn
    float acc_0 = 0.0f;  // insn_1
    if (e < elements)
        u_fetch[tz][ty][tx] = u[e * 64 + ty * 8 + tx];  // fetch_u
    __syncthreads();
    float acc_1 = 0.0f;  // insn_4
    if (e < elements) {
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            acc += d_fetch[ty][k] * u_fetch[tz][k][tx];  // insn
            acc_0 += d_fetch[tx][k] * u_fetch[tz][ty][k];  // insn_1
        }
        float du_r = acc;  // insn
        float du_s = acc_0;  // insn_1
        flux_r[tz][ty][tx] = g[e * 192 + ty * 8 + tx] * du_r + g[e * 192 + 64 + ty * 8 + tx] * du_s;  // insn_2
        flux_s[tz][ty][tx] = g[e * 192 + 64 + ty * 8 + tx] * du_r + g[e * 192 + 128 + ty * 8 + tx] * du_s;  // insn_3
    }
    __syncthreads();
    if (e < elements) {
        #pragma unroll
        for (int k = 0; k < 8; ++k)
            acc_1 += d_fetch[k][ty] * flux_r[tz][k][tx] + d_fetch[k][tx] * flux_s[tz][ty][k];  // insn_4
        lap[e * 64 + ty * 8 + tx] = acc_1;  // insn_4
    }
}
