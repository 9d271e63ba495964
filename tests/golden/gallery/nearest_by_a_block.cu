// nearest_by_a_block computes
//     for i in [0, m)
//         argmin_value = argmin(j, abs(a[i, j] - point[i]), j), j in [0, n)
//         distance[i] = argmin_value.value
//         nearest[i] = argmin_value.index
// Sizes: a: m x n, point: m, distance: m, nearest: m
// Launch: nearest_by_a_block, grid (m), block (40)
// Assumes: m >= 0; n >= 0; distance, nearest overlap no other array
// Indices have 32 bits: m*n, m, n + 120 must not exceed 2147483647

typedef struct {
    float value;
    int index;
} nearest_by_a_block_value_index;
static_assert(
    sizeof(nearest_by_a_block_value_index) == 8,
    "nearest_by_a_block_value_index is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ nearest_by_a_block_value_index
nearest_by_a_block_make_value_index(
    float value,
    int index)
{
    nearest_by_a_block_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ nearest_by_a_block_value_index nearest_by_a_block_argmin(
    nearest_by_a_block_value_index a,
    nearest_by_a_block_value_index b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ nearest_by_a_block_value_index
nearest_by_a_block_exchanged_value_index(
    nearest_by_a_block_value_index x,
    int step)
{
    x.value = __shfl_xor_sync(0xffffffff, x.value, step);
    x.index = __shfl_xor_sync(0xffffffff, x.index, step);
    return x;
}
// The argmin of x over the 40 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ nearest_by_a_block_value_index nearest_by_a_block_block_argmin(
    nearest_by_a_block_value_index x,
    nearest_by_a_block_value_index *partial)
{
    #pragma unroll
    for (int step = 1; step <= 4; step *= 2) {
        const nearest_by_a_block_value_index y = nearest_by_a_block_exchanged_value_index(x, step);
        x = threadIdx.x & step ? nearest_by_a_block_argmin(y, x) : nearest_by_a_block_argmin(x, y);
    }
    if (threadIdx.x % 8 == 0)
        partial[threadIdx.x / 8] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 5; ++n)
        x = nearest_by_a_block_argmin(x, partial[n]);
    return x;
}

extern "C" __global__ void __launch_bounds__(40) nearest_by_a_block(
    const float *__restrict__ a,
    const float *__restrict__ point,
    float *__restrict__ distance,
    int *__restrict__ nearest,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ nearest_by_a_block_value_index partial[5];
    nearest_by_a_block_value_index acc = nearest_by_a_block_make_value_index(INFINITY, 2147483647);
    for (int j = tx; j < n; j += 40)
        acc = nearest_by_a_block_argmin(
            acc, nearest_by_a_block_make_value_index(fabsf(a[bx * n + j] - point[bx]), j));
    acc = nearest_by_a_block_block_argmin(acc, partial);
    nearest_by_a_block_value_index argmin_value = acc;
    if (tx == 0) {
        distance[bx] = argmin_value.value;
        nearest[bx] = argmin_value.index;
    }
}
