// best_segment_of_a_group computes
//     for g in [0, m)
//         low = group[g]
//         high = group[g + 1]
//         t = 0.0f
//         for s in [low, high)
//             begin = first[s]
//             count = first[s + 1] - begin
//             t = max(t, sum(j, x[begin + j])), j in [0, count)
//         best[g] = t
// Sizes: group: (m + 1), first: (segments + 1), x: entries, best: m
// Launch: best_segment_of_a_group, grid (m), block (64)
// Assumes: entries >= 0; m >= 1; segments >= 0; best overlaps no other array
// Indices have 64 bits: 32 do not hold sums of numbers from memory, or constants like these

// The sum of x over the 64 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float best_segment_of_a_group_block_sum_float32(
    float x,
    float *partial)
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

extern "C" __global__ void __launch_bounds__(64) best_segment_of_a_group(
    const int *__restrict__ group,
    const int *__restrict__ first,
    const float *__restrict__ x,
    float *__restrict__ best,
    int m,
    int segments,
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
        int count = (unsigned int)first[s + 1] - begin;
        float acc = 0.0f;
        for (long long j = tx; j < (long long)count; j += 64)
            acc += x[begin + j];
        acc = best_segment_of_a_group_block_sum_float32(acc, partial);
        t = fmaxf(t, acc);
        __syncthreads();  // partial: others used the storage before
    }
    if (tx == 0)
        best[bx] = t;
}
