// A block a row; each thread keeps VECTORS float4 of it in registers.  COLUMNS = 4 * THREADS * VECTORS.
#define WARPS ((THREADS + 31) / 32)

static __device__ float block_max(float value, float *partial)
{
    for (int step = 16; step; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, step));
    if (WARPS == 1)
        return value;
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[threadIdx.x % 32 % WARPS];
    for (int step = 16; step; step /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, step));
    return value;
}

static __device__ float block_sum(float value, float *partial)
{
    for (int step = 16; step; step /= 2)
        value += __shfl_xor_sync(0xffffffff, value, step);
    if (WARPS == 1)
        return value;
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < WARPS ? partial[threadIdx.x % 32] : 0.0f;
    for (int step = 16; step; step /= 2)
        value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const float4 *__restrict__ x, float4 *__restrict__ y)
{
    __shared__ float maxima[WARPS], sums[WARPS];
    const long long row = (long long)blockIdx.x * (THREADS * VECTORS);
    float4 part[VECTORS];
    #pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        part[k] = x[row + k * THREADS + threadIdx.x];
    float top = part[0].x;
    #pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        top = fmaxf(fmaxf(top, fmaxf(part[k].x, part[k].y)), fmaxf(part[k].z, part[k].w));
    top = block_max(top, maxima);
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        part[k].x = __expf(part[k].x - top);
        part[k].y = __expf(part[k].y - top);
        part[k].z = __expf(part[k].z - top);
        part[k].w = __expf(part[k].w - top);
        sum += (part[k].x + part[k].y) + (part[k].z + part[k].w);
    }
    const float scale = 1.0f / block_sum(sum, sums);
    #pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        y[row + k * THREADS + threadIdx.x] =
            make_float4(part[k].x * scale, part[k].y * scale, part[k].z * scale, part[k].w * scale);
}
