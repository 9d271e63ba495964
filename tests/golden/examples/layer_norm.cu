// layer_norm computes
//     for i in [0, n)
//         mean = sum(k, x[i, k])/m, k in [0, m)
//         variance = sum(k, (x[i, k] - mean)**2)/m, k in [0, m)
//         scale = rsqrt(variance + 1e-05)
//         for k in [0, m)
//             y[i, k] = (x[i, k] - mean)*scale*gamma[k] + beta[k]
// Sizes: x: n x m, y: n x m, gamma: m, beta: m
// Launch: layer_norm, grid (n), block (256)
// Assumes: m >= 1; n >= 1; y overlaps no other array
// Indices have 32 bits: n*m, m, m + 768 must not exceed 2147483647

// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float layer_norm_block_sum_float32(float x, float *partial)
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
#ifndef POLYLOOP_SQUARE_FLOAT32
#define POLYLOOP_SQUARE_FLOAT32
static __device__ __forceinline__ float square_float32(float a) { return a * a; }
#endif

extern "C" __global__ void __launch_bounds__(256) layer_norm(
    const float *__restrict__ x,
    float *__restrict__ y,
    const float *__restrict__ gamma,
    const float *__restrict__ beta,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[8];
    __shared__ float partial_0[8];
    float acc = 0.0f;
    for (int k = tx; k < m; k += 256)
        acc += x[bx * m + k];
    acc = layer_norm_block_sum_float32(acc, partial);
    float mean = acc / m;
    float acc_0 = 0.0f;
    for (int k = tx; k < m; k += 256)
        acc_0 += square_float32(x[bx * m + k] - mean);
    acc_0 = layer_norm_block_sum_float32(acc_0, partial_0);
    float variance = acc_0 / m;
    float scale = rsqrtf(variance + 1e-05f);
    for (int k = tx; k < m; k += 256)
        y[bx * m + k] = (x[bx * m + k] - mean) * scale * gamma[k] + beta[k];
}
