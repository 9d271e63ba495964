// pivots_by_eight computes
//     for i in [0, n)
//         argmax_value = argmax(k, abs(a[i, k]), k), k in [0, m)
//         best[i] = argmax_value.value
//         at[i] = argmax_value.index
// Sizes: a: n x m, best: n, at: n
// Launch: pivots_by_eight, grid ((n + 15) / 16), block (8, 16)
// Assumes: m >= 1; n >= 1; best, at overlap no other array
// Indices have 32 bits: n*m, n, n + 31, m + 24 must not exceed 2147483647

typedef struct {
    float value;
    int index;
} pivots_by_eight_value_index;
static_assert(
    sizeof(pivots_by_eight_value_index) == 8,
    "pivots_by_eight_value_index is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ pivots_by_eight_value_index pivots_by_eight_make_value_index(
    float value,
    int index)
{
    pivots_by_eight_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ pivots_by_eight_value_index pivots_by_eight_argmax(
    pivots_by_eight_value_index a,
    pivots_by_eight_value_index b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ pivots_by_eight_value_index pivots_by_eight_exchanged_value_index(
    pivots_by_eight_value_index x,
    int step)
{
    x.value = __shfl_xor_sync(0xffffffff, x.value, step);
    x.index = __shfl_xor_sync(0xffffffff, x.index, step);
    return x;
}
// The argmax of x over the 8 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ pivots_by_eight_value_index pivots_by_eight_argmax_over_x(
    pivots_by_eight_value_index x)
{
    #pragma unroll
    for (int step = 1; step <= 4; step *= 2) {
        const pivots_by_eight_value_index y = pivots_by_eight_exchanged_value_index(x, step);
        x = threadIdx.x & step ? pivots_by_eight_argmax(y, x) : pivots_by_eight_argmax(x, y);
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(128) pivots_by_eight(
    const float *__restrict__ a,
    float *__restrict__ best,
    int *__restrict__ at,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 16 * bx + ty;
    pivots_by_eight_value_index acc = pivots_by_eight_make_value_index(-INFINITY, 2147483647);
    if (i < n) {
        for (int k = tx; k < m; k += 8)
            acc = pivots_by_eight_argmax(
                acc, pivots_by_eight_make_value_index(fabsf(a[i * m + k]), k));
    }
    acc = pivots_by_eight_argmax_over_x(acc);
    pivots_by_eight_value_index argmax_value;
    if (i < n)
        argmax_value = acc;
    if (tx == 0 && i < n) {
        best[i] = argmax_value.value;
        at[i] = argmax_value.index;
    }
}
