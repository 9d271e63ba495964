// softmax computes
//     for i in [0, m)
//         for k in [0, 4096)
//             row[k] = x[i, k]
//         top = max(k, row[k]), k in [0, 4096)
//         for k in [0, 4096)
//             power[k] = exp(row[k] - top)
//         scale = 1/sum(k, power[k]), k in [0, 4096)
//         for k in [0, 4096)
//             y[i, k] = power[k]*scale
// Sizes: x: m x 4096, y: m x 4096
// Launch: softmax, grid ((m + 1) / 2), block (256, 2)
// Assumes: m >= 1; x is aligned to 16 bytes; y is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: 4096*m, m + 3 must not exceed 2147483647

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
// The greatest x over the 256 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ float softmax_max_over_x_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
    if (threadIdx.x % 32 == 0)
        partial[8 * threadIdx.y + threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[8 * threadIdx.y];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x = fmaxf(x, partial[8 * threadIdx.y + n]);
    return x;
}
// The sum of x over the 256 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ float softmax_sum_over_x_float32(float x, float *partial)
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

extern "C" __global__ void __launch_bounds__(512) softmax(
    const float *__restrict__ x,
    float *__restrict__ y,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 2 * bx + ty;
    __shared__ float partial[16];
    __shared__ float partial_0[16];
    float acc = -INFINITY;
    __align__(16) float row[4][4];
    if (i < m) {
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            *(float4 *)&row[step][0] = *(const float4 *)&x[i * 4096 + 1024 * step + 4 * tx];
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                acc = fmaxf(acc, row[step][lane]);
        }
    }
    acc = softmax_max_over_x_float32(acc, partial);
    float acc_0 = 0.0f;
    float power[4][4];
    if (i < m) {
        float top = acc;
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                power[step][lane] = expf(row[step][lane] - top);
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                acc_0 += power[step][lane];
        }
    }
    acc_0 = softmax_sum_over_x_float32(acc_0, partial_0);
    if (i < m) {
        float scale = 1.0f / acc_0;
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            float4 y_v;
            y_v.x = power[step][0] * scale;
            y_v.y = power[step][1] * scale;
            y_v.z = power[step][2] * scale;
            y_v.w = power[step][3] * scale;
            *(float4 *)&y[i * 4096 + 1024 * step + 4 * tx] = y_v;
        }
    }
}
