// over_nothing computes
//     for i in [0, m)
//         s[i] = sum(j, a[i, j]), j in [0, n)
//         p[i] = product(j, a[i, j]/8), j in [0, n)
//         high[i] = max(j, a[i, j]), j in [0, n)
//         low[i] = min(j, a[i, j]), j in [0, n)
//         some[i] = any(j, a[i, j] > 7), j in [0, n)
//         each[i] = all(j, a[i, j] > -9), j in [0, n)
//         first[i] = argmax(j, a[i, j], j).index, j in [0, n)
//         last[i] = argmin(j, a[i, j], j).index, j in [0, n)
//         segmented_sum_value = reduce(segmented(sum), j, a[i, j], a[i, j] > 100), j in [0, n)
//         total[i] = segmented_sum_value.value
//         flag[i] = segmented_sum_value.flag
//         norm[i] = euclid(j, a[i, j]), j in [0, n)
// Sizes: a: m x n, s: m, p: m, high: m, low: m, some: m, and 6 more
// Launch: over_nothing, grid ((m + 15) / 16), block (16)
// Assumes: m >= 0; n >= 0; s, p, high, low, some, each, and 5 more overlap no other array
// Indices have 32 bits: m*n, m, m + 31 must not exceed 2147483647

typedef struct {
    float value;
    int index;
} over_nothing_value_index;
static_assert(
    sizeof(over_nothing_value_index) == 8, "over_nothing_value_index is not laid out as in NumPy");

typedef struct {
    float value;
    bool flag;
} over_nothing_value_flag;
static_assert(
    sizeof(over_nothing_value_flag) == 8, "over_nothing_value_flag is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ over_nothing_value_index over_nothing_make_value_index(
    float value,
    int index)
{
    over_nothing_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ over_nothing_value_flag over_nothing_make_value_flag(
    float value,
    bool flag)
{
    over_nothing_value_flag result;
    result.value = value;
    result.flag = flag;
    return result;
}
static __device__ __forceinline__ over_nothing_value_index over_nothing_argmax(
    over_nothing_value_index a,
    over_nothing_value_index b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
static __device__ __forceinline__ over_nothing_value_index over_nothing_argmin(
    over_nothing_value_index a,
    over_nothing_value_index b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
static __device__ __forceinline__ over_nothing_value_flag over_nothing_segmented_sum(
    over_nothing_value_flag a,
    over_nothing_value_flag b)
{
    over_nothing_value_flag result;
    result.value = b.flag ? b.value : a.value + b.value;
    result.flag = a.flag || b.flag;
    return result;
}
static __device__ __forceinline__ float over_nothing_euclid_float32(float a, float b)
{
    return hypotf(a, b);
}

extern "C" __global__ void __launch_bounds__(16) over_nothing(
    const float *__restrict__ a,
    float *__restrict__ s,
    float *__restrict__ p,
    float *__restrict__ high,
    float *__restrict__ low,
    bool *__restrict__ some,
    bool *__restrict__ each,
    int *__restrict__ first,
    int *__restrict__ last,
    float *__restrict__ total,
    bool *__restrict__ flag,
    float *__restrict__ norm,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        float acc = 0.0f;
        float acc_0 = 1.0f;
        float acc_1 = -INFINITY;
        float acc_2 = INFINITY;
        bool acc_3 = false;
        bool acc_4 = true;
        over_nothing_value_index acc_5 = over_nothing_make_value_index(-INFINITY, 2147483647);
        over_nothing_value_index acc_6 = over_nothing_make_value_index(INFINITY, 2147483647);
        over_nothing_value_flag acc_7 = over_nothing_make_value_flag(0.0f, false);
        float acc_8 = 0.0f;
        for (int j = 0; j < n; ++j) {
            acc += a[i * n + j];
            acc_0 *= a[i * n + j] / 8.0f;
            acc_1 = fmaxf(acc_1, a[i * n + j]);
            acc_2 = fminf(acc_2, a[i * n + j]);
            acc_3 = acc_3 || a[i * n + j] > 7.0f;
            acc_4 = acc_4 && a[i * n + j] > -9.0f;
            acc_5 = over_nothing_argmax(acc_5, over_nothing_make_value_index(a[i * n + j], j));
            acc_6 = over_nothing_argmin(acc_6, over_nothing_make_value_index(a[i * n + j], j));
            acc_7 = over_nothing_segmented_sum(
                acc_7, over_nothing_make_value_flag(a[i * n + j], a[i * n + j] > 100.0f));
            acc_8 = over_nothing_euclid_float32(acc_8, a[i * n + j]);
        }
        s[i] = acc;
        p[i] = acc_0;
        high[i] = acc_1;
        low[i] = acc_2;
        some[i] = acc_3;
        each[i] = acc_4;
        first[i] = acc_5.index;
        last[i] = acc_6.index;
        over_nothing_value_flag segmented_sum_value = acc_7;
        total[i] = segmented_sum_value.value;
        flag[i] = segmented_sum_value.flag;
        norm[i] = acc_8;
    }
}
