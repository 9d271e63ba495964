typedef struct {
    float value;
    int index;
} value_index;
static_assert(sizeof(value_index) == 8, "value_index is not laid out as in NumPy");

static __device__ __forceinline__ value_index make_value_index(float value, int index)
{
    value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ value_index argmin(value_index a, value_index b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

extern "C" __global__ void least_0(const float *__restrict__ a, int n, value_index *__restrict__ part)
{
    const int bx = blockIdx.x;
    if (8 * bx + 7 < n) {
        value_index acc = make_value_index(__int_as_float(0x7f800000), 2147483647);
        for (int k_inner = 0; k_inner < 8; ++k_inner)
            acc = argmin(acc, make_value_index(fabsf(a[8 * bx + k_inner]), 8 * bx + k_inner));
        part[bx] = acc;
    } else {
        value_index acc = make_value_index(__int_as_float(0x7f800000), 2147483647);
        for (int k_inner = 0; k_inner < min(8, n - 8 * bx); ++k_inner)
            acc = argmin(acc, make_value_index(fabsf(a[8 * bx + k_inner]), 8 * bx + k_inner));
        part[bx] = acc;
    }
}

extern "C" __global__ void least_1(float *__restrict__ least, int *__restrict__ where, int n, const value_index *__restrict__ part)
{
    value_index acc_0 = make_value_index(__int_as_float(0x7f800000), 2147483647);  // insn
    for (int k_outer = 0; k_outer < (n + 7) / 8; ++k_outer)
        acc_0 = argmin(acc_0, part[k_outer]);  // insn
    value_index argmin_value = acc_0;  // insn
    least[0] = argmin_value.value;  // insn_1
    where[0] = argmin_value.index;  // insn_2
}
