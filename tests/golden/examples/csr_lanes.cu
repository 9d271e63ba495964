// csr_lanes computes
//     for i in [0, n)
//         begin = first[i]
//         count = first[i + 1] - begin
//         y[i] = sum(j, a[begin + j]*x[column[begin + j]]), j in [0, count)
// Sizes: first: (n + 1), column: entries, a: entries, x: m, y: n
// Launch: csr_lanes, grid ((n + 31) / 32), block (8, 32)
// Assumes: entries >= 0; m >= 0; n >= 1; y overlaps no other array
// Indices have 64 bits: 32 do not hold sums of numbers from memory, or constants like these

// The sum of x over the 8 threads that differ in threadIdx.x only, on each of them; the whole block
// calls it.
static __device__ __forceinline__ float csr_lanes_sum_over_x_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 4; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(256) csr_lanes(
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
    const long long i = 32 * bx + ty;
    float acc = 0.0f;
    if (i < n) {
        int begin = first[i];
        int count = (unsigned int)first[i + 1] - begin;
        for (long long j_outer = 0; 32 * j_outer < (long long)count - tx; ++j_outer) {
            #pragma unroll
            for (long long j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                const long long j = 32 * j_outer + 8 * j_inner_outer + tx;
                if (j < (long long)count) {
                    const long long offset = begin + j;
                    acc += a[offset] * x[column[offset]];
                }
            }
        }
    }
    acc = csr_lanes_sum_over_x_float32(acc);
    if (tx == 0 && i < n)
        y[i] = acc;
}
