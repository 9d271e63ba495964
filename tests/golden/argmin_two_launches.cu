// least computes
//     argmin_value = argmin(k, abs(a[k]), k), k in [0, n)
//     least = argmin_value.value
//     where = argmin_value.index
// Sizes: a: n
// Launch: least_0, grid ((n + 7) / 8), block (1)
// Launch: least_1, grid (1), block (1)
// Assumes: n >= 1; least, where overlap no other array
// Indices have 32 bits: n, (n + 7) / 8, n + 15 must not exceed 2147483647

typedef struct {
    float value;
    int index;
} least_value_index;
static_assert(sizeof(least_value_index) == 8, "least_value_index is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ least_value_index least_make_value_index(float value, int index)
{
    least_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ least_value_index least_argmin(
    least_value_index a,
    least_value_index b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

extern "C" __global__ void least_0(
    const float *__restrict__ a,
    int n,
    least_value_index *__restrict__ part)
{
    const int bx = blockIdx.x;
    if (8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        least_value_index acc = least_make_value_index(INFINITY, 2147483647);
        for (int k_inner = 0; k_inner < 8; ++k_inner)
            acc = least_argmin(
                acc, least_make_value_index(fabsf(a[8 * bx + k_inner]), 8 * bx + k_inner));
        part[bx] = acc;
    } else {
        least_value_index acc = least_make_value_index(INFINITY, 2147483647);
        for (int k_inner = 0; k_inner < min(8, n - 8 * bx); ++k_inner)
            acc = least_argmin(
                acc, least_make_value_index(fabsf(a[8 * bx + k_inner]), 8 * bx + k_inner));
        part[bx] = acc;
    }
}

extern "C" __global__ void least_1(
    float *__restrict__ least,
    int *__restrict__ where,
    int n,
    const least_value_index *__restrict__ part)
{
    least_value_index acc_0 = least_make_value_index(INFINITY, 2147483647);
    for (int k_outer = 0; k_outer < (n + 7) / 8; ++k_outer)
        acc_0 = least_argmin(acc_0, part[k_outer]);
    least_value_index argmin_value = acc_0;
    least[0] = argmin_value.value;
    where[0] = argmin_value.index;
}
