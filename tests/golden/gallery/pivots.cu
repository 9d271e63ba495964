// pivots computes
//     for i in [0, m)
//         argmax_value = argmax(j, abs(a[i, j]), j), j in [0, n)
//         size[i] = argmax_value.value
//         pivot[i] = argmax_value.index
// Sizes: a: m x n, size: m, pivot: m
// Launch: pivots, grid ((m + 15) / 16), block (16)
// Assumes: m >= 0; n >= 0; size, pivot overlap no other array
// Indices have 32 bits: m*n, m, 2*n + 6, m + 31, n + 7 must not exceed 2147483647

typedef struct {
    float value;
    int index;
} pivots_value_index;
static_assert(sizeof(pivots_value_index) == 8, "pivots_value_index is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ pivots_value_index pivots_make_value_index(float value, int index)
{
    pivots_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ pivots_value_index pivots_argmax(
    pivots_value_index a,
    pivots_value_index b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

extern "C" __global__ void __launch_bounds__(16) pivots(
    const float *__restrict__ a,
    float *__restrict__ size,
    int *__restrict__ pivot,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        pivots_value_index acc = pivots_make_value_index(-INFINITY, 2147483647);
        // Full tiles, without tests; the others begin at j_outer_full.
        const int j_outer_full = n / 4;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            for (int j_inner = 0; j_inner < 4; ++j_inner) {
                const int j = 4 * j_outer + j_inner;
                acc = pivots_argmax(acc, pivots_make_value_index(fabsf(a[i * n + j]), j));
            }
        }
        for (int j_outer = j_outer_full; j_outer < (n + 3) / 4; ++j_outer) {
            for (int j_inner = 0; j_inner < n - 4 * j_outer; ++j_inner) {
                const int j = 4 * j_outer + j_inner;
                acc = pivots_argmax(acc, pivots_make_value_index(fabsf(a[i * n + j]), j));
            }
        }
        pivots_value_index argmax_value = acc;
        size[i] = argmax_value.value;
        pivot[i] = argmax_value.index;
    }
}
