// tiles_added computes
//     for i in [0, n)
//         b[i] = sum(j, a[j]), j in [0, i + 1)
// Sizes: a: n, b: n
// Launch: tiles_added_0, grid ((n + 15) / 16), block (16)
// Launch: tiles_added_1, grid (1), block (1)
// Launch: tiles_added_2, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, (n + 15) / 16, n + 31 must not exceed 2147483647

// The sum of x over the 16 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float tiles_added_sum_over_x_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 8; step *= 2)
        x += __shfl_xor_sync(0xffff, x, step);
    return x;
}
// The sum of x over the threads of the block up to this one; the whole block calls it.
static __device__ __forceinline__ float tiles_added_warp_inclusive_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step < 16; step *= 2) {
        const float y = __shfl_up_sync(0xffff, x, step);
        if (threadIdx.x >= step)
            x = y + x;
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(16) tiles_added_0(
    const float *__restrict__ a,
    int n,
    float *__restrict__ b_sum)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    float acc = 0.0f;
    if (i < n)
        acc += a[i];
    acc = tiles_added_sum_over_x_float32(acc);
    if (tx == 0)
        b_sum[bx] = acc;
}

extern "C" __global__ void __launch_bounds__(1) tiles_added_1(
    int n,
    const float *__restrict__ b_sum,
    float *__restrict__ b_carry)
{
    float acc_0 = 0.0f;
    for (int before = 0; before < (n + 15) / 16; ++before) {
        b_carry[before] = acc_0;
        acc_0 += b_sum[before];
    }
}

extern "C" __global__ void __launch_bounds__(16) tiles_added_2(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    const float *__restrict__ b_carry)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    float b_local = 0.0f;
    if (i < n)
        b_local += a[i];
    b_local = tiles_added_warp_inclusive_sum_float32(b_local);
    if (i < n)
        b[i] = b_carry[bx] + b_local;
}
