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
// Launch: groups, grid ((m + 1) / 2), block (32, 2)
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
// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; whole warps
// call it.
static __device__ __forceinline__ float groups_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(64) groups(
    const int *__restrict__ group,
    const int *__restrict__ first,
    const float *__restrict__ x,
    float *__restrict__ y,
    int m_arg,
    int n,
    int entries)
{
    const long long m = (long long)m_arg;
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x, ty = threadIdx.y;
    const long long g = 2 * bx + ty;
    if (g < m) {
        int low = group[g];
        int high = group[g + 1];
        float t = 0.0f;
        for (long long s = (long long)low; s < (long long)high; ++s) {
            int begin = first[s];
            int stop = first[s + 1];
            float acc = 0.0f;
            for (long long j_outer = floordiv_int64((long long)begin - tx + 31, 32);
                    32 * j_outer < (long long)stop - tx;
                    ++j_outer)
                acc += x[32 * j_outer + tx];
            acc = groups_warp_sum_float32(acc);
            t = fmaxf(t, acc);
        }
        if (tx == 0)
            y[g] = t;
    }
}
