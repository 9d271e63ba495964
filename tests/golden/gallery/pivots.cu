typedef struct {
    float value;
    int index;
} pivots_value_index;
static_assert(sizeof(pivots_value_index) == 8, "pivots_value_index is not laid out as in NumPy");

static __device__ __forceinline__ pivots_value_index pivots_make_value_index(float value, int index)
{
    pivots_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ pivots_value_index pivots_argmax(pivots_value_index a, pivots_value_index b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

extern "C" __global__ void __launch_bounds__(16) pivots(const float *__restrict__ a, float *__restrict__ size, int *__restrict__ pivot, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        pivots_value_index acc = pivots_make_value_index(-__int_as_float(0x7f800000), 2147483647);  // insn
        const int j_outer_full = n / 4;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            for (int j_inner = 0; j_inner < 4; ++j_inner)
                acc = pivots_argmax(acc, pivots_make_value_index(fabsf(a[i * n + 4 * j_outer + j_inner]), 4 * j_outer + j_inner));  // insn
        }
        for (int j_outer = j_outer_full; j_outer < (n + 3) / 4; ++j_outer) {
            for (int j_inner = 0; j_inner < n - 4 * j_outer; ++j_inner)
                acc = pivots_argmax(acc, pivots_make_value_index(fabsf(a[i * n + 4 * j_outer + j_inner]), 4 * j_outer + j_inner));  // insn
        }
        pivots_value_index argmax_value = acc;  // insn
        size[i] = argmax_value.value;  // insn_1
        pivot[i] = argmax_value.index;  // insn_2
    }
}
