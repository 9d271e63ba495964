typedef struct {
    float value;
    int index;
} over_nothing_value_index;
static_assert(sizeof(over_nothing_value_index) == 8, "over_nothing_value_index is not laid out as in NumPy");

typedef struct {
    float value;
    bool flag;
} over_nothing_value_flag;
static_assert(sizeof(over_nothing_value_flag) == 8, "over_nothing_value_flag is not laid out as in NumPy");

static __device__ __forceinline__ over_nothing_value_index over_nothing_make_value_index(float value, int index)
{
    over_nothing_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ over_nothing_value_flag over_nothing_make_value_flag(float value, bool flag)
{
    over_nothing_value_flag result;
    result.value = value;
    result.flag = flag;
    return result;
}
static __device__ __forceinline__ over_nothing_value_index over_nothing_argmax(over_nothing_value_index a, over_nothing_value_index b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
static __device__ __forceinline__ over_nothing_value_index over_nothing_argmin(over_nothing_value_index a, over_nothing_value_index b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}
static __device__ __forceinline__ over_nothing_value_flag over_nothing_segmented_sum(over_nothing_value_flag a, over_nothing_value_flag b)
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

extern "C" __global__ void __launch_bounds__(16) over_nothing(const float *__restrict__ a, float *__restrict__ s, float *__restrict__ p, float *__restrict__ high, float *__restrict__ low, bool *__restrict__ some, bool *__restrict__ each, int *__restrict__ first, int *__restrict__ last, float *__restrict__ total, bool *__restrict__ flag, float *__restrict__ norm, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        float acc = 0.0f;  // insn
        float acc_0 = 1.0f;  // insn_1
        float acc_1 = -__int_as_float(0x7f800000);  // insn_2
        float acc_2 = __int_as_float(0x7f800000);  // insn_3
        bool acc_3 = false;  // insn_4
        bool acc_4 = true;  // insn_5
        over_nothing_value_index acc_5 = over_nothing_make_value_index(-__int_as_float(0x7f800000), 2147483647);  // insn_6
        over_nothing_value_index acc_6 = over_nothing_make_value_index(__int_as_float(0x7f800000), 2147483647);  // insn_7
        over_nothing_value_flag acc_7 = over_nothing_make_value_flag(0.0f, false);  // insn_8
        float acc_8 = 0.0f;  // insn_11
        for (int j = 0; j < n; ++j) {
            acc += a[i * n + j];  // insn
            acc_0 *= a[i * n + j] / 8.0f;  // insn_1
            acc_1 = fmaxf(acc_1, a[i * n + j]);  // insn_2
            acc_2 = fminf(acc_2, a[i * n + j]);  // insn_3
            acc_3 = acc_3 || a[i * n + j] > 7.0f;  // insn_4
            acc_4 = acc_4 && a[i * n + j] > -9.0f;  // insn_5
            acc_5 = over_nothing_argmax(acc_5, over_nothing_make_value_index(a[i * n + j], j));  // insn_6
            acc_6 = over_nothing_argmin(acc_6, over_nothing_make_value_index(a[i * n + j], j));  // insn_7
            acc_7 = over_nothing_segmented_sum(acc_7, over_nothing_make_value_flag(a[i * n + j], a[i * n + j] > 100.0f));  // insn_8
            acc_8 = over_nothing_euclid_float32(acc_8, a[i * n + j]);  // insn_11
        }
        s[i] = acc;  // insn
        p[i] = acc_0;  // insn_1
        high[i] = acc_1;  // insn_2
        low[i] = acc_2;  // insn_3
        some[i] = acc_3;  // insn_4
        each[i] = acc_4;  // insn_5
        first[i] = acc_5.index;  // insn_6
        last[i] = acc_6.index;  // insn_7
        over_nothing_value_flag segmented_sum_value = acc_7;  // insn_8
        total[i] = segmented_sum_value.value;  // insn_9
        flag[i] = segmented_sum_value.flag;  // insn_10
        norm[i] = acc_8;  // insn_11
    }
}
