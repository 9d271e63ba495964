// segmented_scan computes
//     for i in [0, n)
//         b[i] = reduce(segmented(sum), j, x[j], starts[j]).value, j in [0, i + 1)
// Sizes: x: n, b: n, starts: n
// Launch: segmented_scan, grid (1), block (1)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, 2*n + 14, n + 15 must not exceed 2147483647

typedef struct {
    float value;
    bool flag;
} segmented_scan_value_flag;
static_assert(
    sizeof(segmented_scan_value_flag) == 8,
    "segmented_scan_value_flag is not laid out as in NumPy");

static __device__ __forceinline__ segmented_scan_value_flag segmented_scan_make_value_flag(
    float value,
    bool flag)
{
    segmented_scan_value_flag result;
    result.value = value;
    result.flag = flag;
    return result;
}
static __device__ __forceinline__ segmented_scan_value_flag segmented_scan_segmented_sum(
    segmented_scan_value_flag a,
    segmented_scan_value_flag b)
{
    segmented_scan_value_flag result;
    result.value = b.flag ? b.value : a.value + b.value;
    result.flag = a.flag || b.flag;
    return result;
}

extern "C" __global__ void segmented_scan(
    const float *__restrict__ x,
    float *__restrict__ b,
    const bool *__restrict__ starts,
    int n)
{
    segmented_scan_value_flag acc_0 = segmented_scan_make_value_flag(0.0f, false);
    // Full tiles, without tests; the others begin at tile_full.
    const int tile_full = n / 8;
    for (int tile = 0; tile < tile_full; ++tile) {
        segmented_scan_value_flag b_sum = segmented_scan_make_value_flag(0.0f, false);
        for (int j_inner = 0; j_inner < 8; ++j_inner)
            b_sum = segmented_scan_segmented_sum(
                b_sum,
                segmented_scan_make_value_flag(x[8 * tile + j_inner], starts[8 * tile + j_inner]));
        segmented_scan_value_flag b_carry = acc_0;
        acc_0 = segmented_scan_segmented_sum(acc_0, b_sum);
        for (int k = 0; k < 8; ++k) {
            const int i = 8 * tile + k;
            b_carry = segmented_scan_segmented_sum(
                b_carry, segmented_scan_make_value_flag(x[i], starts[i]));
            b[i] = b_carry.value;
        }
    }
    for (int tile = tile_full; tile < (n + 7) / 8; ++tile) {
        segmented_scan_value_flag b_sum = segmented_scan_make_value_flag(0.0f, false);
        for (int j_inner = 0; j_inner < n - 8 * tile; ++j_inner)
            b_sum = segmented_scan_segmented_sum(
                b_sum,
                segmented_scan_make_value_flag(x[8 * tile + j_inner], starts[8 * tile + j_inner]));
        segmented_scan_value_flag b_carry = acc_0;
        acc_0 = segmented_scan_segmented_sum(acc_0, b_sum);
        for (int k = 0; k < n - 8 * tile; ++k) {
            const int i = 8 * tile + k;
            b_carry = segmented_scan_segmented_sum(
                b_carry, segmented_scan_make_value_flag(x[i], starts[i]));
            b[i] = b_carry.value;
        }
    }
}
