// softmax_halves computes
//     for i in [0, m)
//         for k in [0, 2048)
//             low[k] = x[i, k]
//             high[k] = x[i, k + 2048]
//         top = max(k, max(low[k], high[k])), k in [0, 2048)
//         for k in [0, 2048)
//             low[k] = exp(low[k] - top)
//             high[k] = exp(high[k] - top)
//         scale = 1/sum(k, low[k] + high[k]), k in [0, 2048)
//         for k in [0, 2048)
//             y[i, k] = low[k]*scale
//             y[i, k + 2048] = high[k]*scale
// Sizes: x: m x 4096, y: m x 4096
// Launch: softmax_halves, grid (m), block (256)
// Assumes: m >= 1; x is aligned to 16 bytes; y is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: 4096*m must not exceed 2147483647

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
// The greatest x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float softmax_halves_block_max_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x = fmaxf(x, partial[n]);
    return x;
}
// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float softmax_halves_block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x += partial[n];
    return x;
}

extern "C" __global__ void __launch_bounds__(256) softmax_halves(
    const float *__restrict__ x,
    float *__restrict__ y,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ __align__(16) float high[2][256][4];
    __shared__ float partial[8];
    __shared__ float partial_0[8];
    float acc = -INFINITY;
    __align__(16) float low[2][4];
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        *(float4 *)&low[step][0] = *(const float4 *)&x[bx * 4096 + 1024 * step + 4 * tx];
        *(float4 *)&high[step][tx][0] =
            *(const float4 *)&x[bx * 4096 + 1024 * step + 4 * tx + 2048];
        const float4 high_v = *(const float4 *)&high[step][tx][0];
        acc = fmaxf(acc, fmaxf(low[step][0], high_v.x));
        acc = fmaxf(acc, fmaxf(low[step][1], high_v.y));
        acc = fmaxf(acc, fmaxf(low[step][2], high_v.z));
        acc = fmaxf(acc, fmaxf(low[step][3], high_v.w));
    }
    acc = softmax_halves_block_max_float32(acc, partial);
    float top = acc;
    float acc_0 = 0.0f;
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            low[step][lane] = __expf(low[step][lane] - top);
        float4 high_v = *(const float4 *)&high[step][tx][0];
        high_v.x = __expf(high_v.x - top);
        high_v.y = __expf(high_v.y - top);
        high_v.z = __expf(high_v.z - top);
        high_v.w = __expf(high_v.w - top);
        *(float4 *)&high[step][tx][0] = high_v;
        const float4 high_v_0 = *(const float4 *)&high[step][tx][0];
        acc_0 += low[step][0] + high_v_0.x;
        acc_0 += low[step][1] + high_v_0.y;
        acc_0 += low[step][2] + high_v_0.z;
        acc_0 += low[step][3] + high_v_0.w;
    }
    acc_0 = softmax_halves_block_sum_float32(acc_0, partial_0);
    float scale = __fdividef(1.0f, acc_0);
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
        float4 y_v;
        y_v.x = low[step][0] * scale;
        y_v.y = low[step][1] * scale;
        y_v.z = low[step][2] * scale;
        y_v.w = low[step][3] * scale;
        *(float4 *)&y[bx * 4096 + 1024 * step + 4 * tx] = y_v;
        const float4 high_v = *(const float4 *)&high[step][tx][0];
        float4 y_v_0;
        y_v_0.x = high_v.x * scale;
        y_v_0.y = high_v.y * scale;
        y_v_0.z = high_v.z * scale;
        y_v_0.w = high_v.w * scale;
        *(float4 *)&y[bx * 4096 + 1024 * step + 4 * tx + 2048] = y_v_0;
    }
}
