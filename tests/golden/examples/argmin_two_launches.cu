// find_least computes
//     argmin_value = argmin(k, a[k], k), k in [0, n)
//     least = argmin_value.value
//     place = argmin_value.index
// Sizes: a: n
// Launch: find_least_0, grid ((n + 1023) / 1024), block (128)
// Launch: find_least_1, grid (1), block (128)
// Assumes: n >= 1; least, place overlap no other array
// Indices have 32 bits: n, (n + 1023) / 1024, n + 131071 must not exceed 2147483647

typedef struct {
    float value;
    int index;
} find_least_value_index;
static_assert(
    sizeof(find_least_value_index) == 8, "find_least_value_index is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ find_least_value_index find_least_make_value_index(
    float value,
    int index)
{
    find_least_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ find_least_value_index find_least_argmin(
    find_least_value_index a,
    find_least_value_index b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ find_least_value_index find_least_exchanged_value_index(
    find_least_value_index x,
    int step)
{
    x.value = __shfl_xor_sync(0xffffffff, x.value, step);
    x.index = __shfl_xor_sync(0xffffffff, x.index, step);
    return x;
}
// The argmin of x over the 128 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ find_least_value_index find_least_block_argmin(
    find_least_value_index x,
    find_least_value_index *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2) {
        const find_least_value_index y = find_least_exchanged_value_index(x, step);
        x = threadIdx.x & step ? find_least_argmin(y, x) : find_least_argmin(x, y);
    }
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 4; ++n)
        x = find_least_argmin(x, partial[n]);
    return x;
}

extern "C" __global__ void __launch_bounds__(128) find_least_0(
    const float *__restrict__ a,
    int n,
    find_least_value_index *__restrict__ best)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ find_least_value_index partial[4];
    if (1024 * bx + 1023 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        find_least_value_index acc = find_least_make_value_index(INFINITY, 2147483647);
        for (int i_outer = 0; i_outer < 8; ++i_outer)
            acc = find_least_argmin(
                acc,
                find_least_make_value_index(
                    a[1024 * bx + 128 * i_outer + tx], 1024 * bx + (128 * i_outer + tx)));
        acc = find_least_block_argmin(acc, partial);
        if (tx == 0)
            best[bx] = acc;
    } else {
        find_least_value_index acc = find_least_make_value_index(INFINITY, 2147483647);
        for (int i_outer = 0; i_outer < min(8, (n - tx + 127) / 128 - 8 * bx); ++i_outer)
            acc = find_least_argmin(
                acc,
                find_least_make_value_index(
                    a[1024 * bx + 128 * i_outer + tx], 1024 * bx + (128 * i_outer + tx)));
        acc = find_least_block_argmin(acc, partial);
        if (tx == 0)
            best[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(128) find_least_1(
    float *__restrict__ least,
    int *__restrict__ place,
    int n,
    const find_least_value_index *__restrict__ best)
{
    const int tx = threadIdx.x;
    __shared__ find_least_value_index partial_0[4];
    find_least_value_index acc_0 = find_least_make_value_index(INFINITY, 2147483647);
    for (int block_outer = 0; block_outer < (n - 1024 * tx + 131071) / 131072; ++block_outer)
        acc_0 = find_least_argmin(acc_0, best[128 * block_outer + tx]);
    acc_0 = find_least_block_argmin(acc_0, partial_0);
    find_least_value_index argmin_value = acc_0;
    if (tx == 0) {
        least[0] = argmin_value.value;
        place[0] = argmin_value.index;
    }
}
