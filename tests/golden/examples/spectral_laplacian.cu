// spectral_laplacian computes
//     for e in [0, elements)
//         for i in [0, 8), j in [0, 8)
//             du_r = sum(k, d[i, k]*u[e, k, j]), k in [0, 8)
//             du_s = sum(k, d[j, k]*u[e, i, k]), k in [0, 8)
//             flux_r[i, j] = g[e, 0, i, j]*du_r + g[e, 1, i, j]*du_s
//             flux_s[i, j] = g[e, 1, i, j]*du_r + g[e, 2, i, j]*du_s
//         for i in [0, 8), j in [0, 8)
//             lap[e, i, j] = sum(k, d[k, i]*flux_r[k, j] + d[k, j]*flux_s[i, k]), k in [0, 8)
// Sizes: u: elements x 8 x 8, lap: elements x 8 x 8, g: elements x 3 x 8 x 8, d: 8 x 8
// Launch: spectral_laplacian, grid ((elements + 3) / 4), block (8, 8, 4)
// Assumes: elements >= 1; lap overlaps no other array
// Indices have 32 bits: 64*elements, 192*elements, elements + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) spectral_laplacian(
    const float *__restrict__ u,
    float *__restrict__ lap,
    const float *__restrict__ g,
    const float *__restrict__ d,
    int elements)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int e = 4 * bx + tz;
    __shared__ float flux_r[4][8][8];
    __shared__ float flux_s[4][8][8];
    __shared__ float d_fetch[8][8];
    __shared__ float u_fetch[4][8][8];
    if (tz == 0)
        d_fetch[ty][tx] = d[ty * 8 + tx];
    float acc = 0.0f;
    float acc_0 = 0.0f;
    if (e < elements)
        u_fetch[tz][ty][tx] = u[e * 64 + ty * 8 + tx];
    __syncthreads();  // d_fetch, u_fetch: reads follow writes
    float acc_1 = 0.0f;
    if (e < elements) {
        #pragma unroll
        for (int k = 0; k < 8; ++k) {
            acc += d_fetch[ty][k] * u_fetch[tz][k][tx];
            acc_0 += d_fetch[tx][k] * u_fetch[tz][ty][k];
        }
        float du_r = acc;
        float du_s = acc_0;
        flux_r[tz][ty][tx] = g[e * 192 + ty * 8 + tx] * du_r + g[e * 192 + 64 + ty * 8 + tx] * du_s;
        flux_s[tz][ty][tx] =
            g[e * 192 + 64 + ty * 8 + tx] * du_r + g[e * 192 + 128 + ty * 8 + tx] * du_s;
    }
    __syncthreads();  // flux_r, flux_s: reads follow writes
    if (e < elements) {
        #pragma unroll
        for (int k = 0; k < 8; ++k)
            acc_1 += d_fetch[k][ty] * flux_r[tz][k][tx] + d_fetch[k][tx] * flux_s[tz][ty][k];
        lap[e * 64 + ty * 8 + tx] = acc_1;
    }
}
