// groups computes
//     for g in [0, m)
//         low = group[g]
//         high = group[g + 1]
//         t = 0.0f
//         for s in [low, high)
//             begin = first[s]
//             stop = first[s + 1]
//             t = max(t, sum(j, x[j])), j in [begin, stop)
//         y[g] = t
// Sizes: group: (m + 1), first: (n + 1), x: entries, y: m
// Launch: groups, grid (m), block (64)
// Assumes: entries >= 0; m >= 1; n >= 1; y overlaps no other array
// Indices have 64 bits: 32 do not hold sums of numbers from memory, or constants like these

#ifndef POLYLOOP_FLOORDIV_INT64
#define POLYLOOP_FLOORDIV_INT64
static __device__ __forceinline__ long long floordiv_int64(long long a, long long b)
{
    long long q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
#endif
// The sum of x over the 64 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float groups_block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    x += partial[1];
    return x;
}

extern "C" __global__ void __launch_bounds__(64) groups(
    const int *__restrict__ group,
    const int *__restrict__ first,
    const float *__restrict__ x,
    float *__restrict__ y,
    int m,
    int n,
    int entries)
{
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x;
    __shared__ float partial[2];
    int low = group[bx];
    int high = group[bx + 1];
    float t = 0.0f;
    for (long long s = (long long)low; s < (long long)high; ++s) {
        int begin = first[s];
        int stop = first[s + 1];
        float acc = 0.0f;
        for (long long j_outer = floordiv_int64((long long)begin - tx + 63, 64);
                64 * j_outer < (long long)stop - tx;
                ++j_outer)
            acc += x[64 * j_outer + tx];
        acc = groups_block_sum_float32(acc, partial);
        t = fmaxf(t, acc);
        __syncthreads();  // partial: others used the storage before
    }
    if (tx == 0)
        y[bx] = t;
}
