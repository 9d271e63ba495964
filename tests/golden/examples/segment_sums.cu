// segment_sums computes
//     for s in [0, n)
//         begin = first[s]
//         count = first[s + 1] - begin
//         y[s] = sum(j, x[begin + j]), j in [0, count)
// Sizes: first: (n + 1), x: entries, y: n
// Launch: segment_sums, grid (n), block (256)
// Assumes: entries >= 0; n >= 1; y overlaps no other array
// Indices have 64 bits: 32 do not hold sums of numbers from memory, or constants like these

// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float segment_sums_block_sum_float32(float x, float *partial)
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

extern "C" __global__ void __launch_bounds__(256) segment_sums(
    const int *__restrict__ first,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n,
    int entries)
{
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x;
    __shared__ float partial[8];
    int begin = first[bx];
    int count = (unsigned int)first[bx + 1] - begin;
    float acc = 0.0f;
    for (long long j = tx; j < (long long)count; j += 256)
        acc += x[begin + j];
    acc = segment_sums_block_sum_float32(acc, partial);
    if (tx == 0)
        y[bx] = acc;
}
