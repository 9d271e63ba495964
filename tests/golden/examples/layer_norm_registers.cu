// layer_norm_registers computes
//     for i in [0, m)
//         for k in [0, 4096)
//             row[k] = x[i, k]
//         mean = sum(k, row[k])/4096, k in [0, 4096)
//         for k in [0, 4096)
//             away[k] = row[k] - mean
//         scale = rsqrt(sum(k, away[k]*away[k])/4096 + 1e-05), k in [0, 4096)
//         for k in [0, 4096)
//             y[i, k] = away[k]*scale*gamma[k] + beta[k]
// Sizes: x: m x 4096, y: m x 4096, gamma: 4096, beta: 4096
// Launch: layer_norm_registers, grid ((m + 1) / 2), block (256, 2)
// Assumes: m >= 1; x is aligned to 16 bytes; gamma is aligned to 16 bytes; beta is aligned to 16
//     bytes; y is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: 4096*m, m + 3 must not exceed 2147483647

// The sum of x over the 256 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ float layer_norm_registers_sum_over_x_float32(
    float x,
    float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[8 * threadIdx.y + threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[8 * threadIdx.y];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x += partial[8 * threadIdx.y + n];
    return x;
}

extern "C" __global__ void __launch_bounds__(512) layer_norm_registers(
    const float *__restrict__ x,
    float *__restrict__ y,
    const float *__restrict__ gamma,
    const float *__restrict__ beta,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 2 * bx + ty;
    __shared__ float partial[16];
    __shared__ float partial_0[16];
    float acc = 0.0f;
    __align__(16) float row[4][4];
    if (i < m) {
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            *(float4 *)&row[step][0] = *(const float4 *)&x[i * 4096 + 1024 * step + 4 * tx];
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                acc += row[step][lane];
        }
    }
    acc = layer_norm_registers_sum_over_x_float32(acc, partial);
    float acc_0 = 0.0f;
    float away[4][4];
    if (i < m) {
        float mean = acc / 4096.0f;
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                away[step][lane] = row[step][lane] - mean;
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                acc_0 += away[step][lane] * away[step][lane];
        }
    }
    acc_0 = layer_norm_registers_sum_over_x_float32(acc_0, partial_0);
    if (i < m) {
        float scale = rsqrtf(acc_0 / 4096.0f + 1e-05f);
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            const float4 gamma_v = *(const float4 *)&gamma[1024 * step + 4 * tx];
            const float4 beta_v = *(const float4 *)&beta[1024 * step + 4 * tx];
            float4 y_v;
            y_v.x = away[step][0] * scale * gamma_v.x + beta_v.x;
            y_v.y = away[step][1] * scale * gamma_v.y + beta_v.y;
            y_v.z = away[step][2] * scale * gamma_v.z + beta_v.z;
            y_v.w = away[step][3] * scale * gamma_v.w + beta_v.w;
            *(float4 *)&y[i * 4096 + 1024 * step + 4 * tx] = y_v;
        }
    }
}
