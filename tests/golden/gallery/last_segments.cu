// last_segments computes
//     for i in [0, m)
//         segmented_sum_value = reduce(segmented(sum), j, a[i, j], begins[i, j]), j in [0, n)
//         last[i] = segmented_sum_value.value
//         found[i] = segmented_sum_value.flag
// Sizes: a: m x n, begins: m x n, last: m, found: m
// Launch: last_segments, grid ((m + 15) / 16), block (16)
// Assumes: m >= 0; n >= 0; last, found overlap no other array
// Indices have 32 bits: m*n, m, 2*n + 14, m + 31, n + 15 must not exceed 2147483647

typedef struct {
    float value;
    bool flag;
} last_segments_value_flag;
static_assert(
    sizeof(last_segments_value_flag) == 8, "last_segments_value_flag is not laid out as in NumPy");

static __device__ __forceinline__ last_segments_value_flag last_segments_make_value_flag(
    float value,
    bool flag)
{
    last_segments_value_flag result;
    result.value = value;
    result.flag = flag;
    return result;
}
static __device__ __forceinline__ last_segments_value_flag last_segments_segmented_sum(
    last_segments_value_flag a,
    last_segments_value_flag b)
{
    last_segments_value_flag result;
    result.value = b.flag ? b.value : a.value + b.value;
    result.flag = a.flag || b.flag;
    return result;
}

extern "C" __global__ void __launch_bounds__(16) last_segments(
    const float *__restrict__ a,
    const bool *__restrict__ begins,
    float *__restrict__ last,
    bool *__restrict__ found,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        last_segments_value_flag acc = last_segments_make_value_flag(0.0f, false);
        // Full tiles, without tests; the others begin at j_outer_full.
        const int j_outer_full = n / 8;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            for (int j_inner = 0; j_inner < 8; ++j_inner) {
                const int j = 8 * j_outer + j_inner;
                acc = last_segments_segmented_sum(
                    acc, last_segments_make_value_flag(a[i * n + j], begins[i * n + j]));
            }
        }
        for (int j_outer = j_outer_full; j_outer < (n + 7) / 8; ++j_outer) {
            for (int j_inner = 0; j_inner < n - 8 * j_outer; ++j_inner) {
                const int j = 8 * j_outer + j_inner;
                acc = last_segments_segmented_sum(
                    acc, last_segments_make_value_flag(a[i * n + j], begins[i * n + j]));
            }
        }
        last_segments_value_flag segmented_sum_value = acc;
        last[i] = segmented_sum_value.value;
        found[i] = segmented_sum_value.flag;
    }
}
