// best_so_far computes
//     for i in [0, n)
//         best[i] = argmax(j, a[j], j).index, j in [0, i + 1)
// Sizes: a: n, best: n
// Launch: best_so_far, grid (1), block (1)
// Assumes: n >= 0; best overlaps no other array
// Indices have 32 bits: n, 2*n + 6, n + 7 must not exceed 2147483647

typedef struct {
    float value;
    int index;
} best_so_far_value_index;
static_assert(
    sizeof(best_so_far_value_index) == 8, "best_so_far_value_index is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ best_so_far_value_index best_so_far_make_value_index(
    float value,
    int index)
{
    best_so_far_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ best_so_far_value_index best_so_far_argmax(
    best_so_far_value_index a,
    best_so_far_value_index b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

extern "C" __global__ void best_so_far(const float *__restrict__ a, int *__restrict__ best, int n)
{
    best_so_far_value_index acc_0 = best_so_far_make_value_index(-INFINITY, 2147483647);
    // Full tiles, without tests; the others begin at i_outer_full.
    const int i_outer_full = n / 4;
    for (int i_outer = 0; i_outer < i_outer_full; ++i_outer) {
        best_so_far_value_index best_sum = best_so_far_make_value_index(-INFINITY, 2147483647);
        for (int j_inner = 0; j_inner < 4; ++j_inner)
            best_sum = best_so_far_argmax(
                best_sum,
                best_so_far_make_value_index(a[4 * i_outer + j_inner], 4 * i_outer + j_inner));
        best_so_far_value_index best_carry = acc_0;
        acc_0 = best_so_far_argmax(acc_0, best_sum);
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 4 * i_outer + i_inner;
            best_carry = best_so_far_argmax(best_carry, best_so_far_make_value_index(a[i], i));
            best[i] = best_carry.index;
        }
    }
    for (int i_outer = i_outer_full; i_outer < (n + 3) / 4; ++i_outer) {
        best_so_far_value_index best_sum = best_so_far_make_value_index(-INFINITY, 2147483647);
        for (int j_inner = 0; j_inner < n - 4 * i_outer; ++j_inner)
            best_sum = best_so_far_argmax(
                best_sum,
                best_so_far_make_value_index(a[4 * i_outer + j_inner], 4 * i_outer + j_inner));
        best_so_far_value_index best_carry = acc_0;
        acc_0 = best_so_far_argmax(acc_0, best_sum);
        for (int i_inner = 0; i_inner < n - 4 * i_outer; ++i_inner) {
            const int i = 4 * i_outer + i_inner;
            best_carry = best_so_far_argmax(best_carry, best_so_far_make_value_index(a[i], i));
            best[i] = best_carry.index;
        }
    }
}
