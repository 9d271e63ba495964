typedef struct {
    float value;
    bool flag;
} last_segments_value_flag;
static_assert(sizeof(last_segments_value_flag) == 8, "last_segments_value_flag is not laid out as in NumPy");

static __device__ __forceinline__ last_segments_value_flag last_segments_make_value_flag(float value, bool flag)
{
    last_segments_value_flag result;
    result.value = value;
    result.flag = flag;
    return result;
}
static __device__ __forceinline__ last_segments_value_flag last_segments_segmented_sum(last_segments_value_flag a, last_segments_value_flag b)
{
    last_segments_value_flag result;
    result.value = b.flag ? b.value : a.value + b.value;
    result.flag = a.flag || b.flag;
    return result;
}

extern "C" __global__ void __launch_bounds__(16) last_segments(const float *__restrict__ a, const bool *__restrict__ begins, float *__restrict__ last, bool *__restrict__ found, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        last_segments_value_flag acc = last_segments_make_value_flag(0.0f, false);  // insn
        const int j_outer_full = n / 8;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            for (int j_inner = 0; j_inner < 8; ++j_inner) {
                const int j = 8 * j_outer + j_inner;
                acc = last_segments_segmented_sum(acc, last_segments_make_value_flag(a[i * n + j], begins[i * n + j]));  // insn
            }
        }
        for (int j_outer = j_outer_full; j_outer < (n + 7) / 8; ++j_outer) {
            for (int j_inner = 0; j_inner < n - 8 * j_outer; ++j_inner) {
                const int j = 8 * j_outer + j_inner;
                acc = last_segments_segmented_sum(acc, last_segments_make_value_flag(a[i * n + j], begins[i * n + j]));  // insn
            }
        }
        last_segments_value_flag segmented_sum_value = acc;  // insn
        last[i] = segmented_sum_value.value;  // insn_1
        found[i] = segmented_sum_value.flag;  // insn_2
    }
}
