// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x += partial[n];
    return x;
}

extern "C" __global__ void __launch_bounds__(256) row_sums(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[8];
    float acc = 0.0f;
    #pragma unroll
    for (int step = 0; step < 16; ++step) {
        const float4 x_v = *(const float4 *)&x[bx * 16384 + 1024 * step + 4 * tx];
        acc += x_v.x;
        acc += x_v.y;
        acc += x_v.z;
        acc += x_v.w;
    }
    acc = block_sum_float32(acc, partial);
    if (tx == 0)
        y[bx] = acc;
}
