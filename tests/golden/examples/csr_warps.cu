// csr_warps computes
//     for i in [0, n)
//         begin = first[i]
//         count = first[i + 1] - begin
//         y[i] = sum(j, a[begin + j]*x[column[begin + j]]), j in [0, count)
// Sizes: first: (n + 1), column: entries, a: entries, x: m, y: n
// Launch: csr_warps, grid ((n + 7) / 8), block (32, 8)
// Assumes: entries >= 0; m >= 0; n >= 1; y overlaps no other array
// Indices have 64 bits: 32 do not hold sums of numbers from memory, or constants like these

// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ float csr_warps_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(256) csr_warps(
    const int *__restrict__ first,
    const int *__restrict__ column,
    const float *__restrict__ a,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n_arg,
    int entries,
    int m)
{
    const long long n = (long long)n_arg;
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x, ty = threadIdx.y;
    const long long i = 8 * bx + ty;
    float acc = 0.0f;
    if (i < n) {
        int begin = first[i];
        int count = (unsigned int)first[i + 1] - begin;
        for (long long j = tx; j < (long long)count; j += 32) {
            const long long offset = begin + j;
            acc += a[offset] * x[column[offset]];
        }
    }
    acc = csr_warps_warp_sum_float32(acc);
    if (tx == 0 && i < n)
        y[i] = acc;
}
