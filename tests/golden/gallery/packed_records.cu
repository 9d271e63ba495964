// packed_records computes
//     for i in [0, n)
//         t = a[i]
//         t.value = t.value*t.flag
//         b[i] = t
// Sizes: a: n, b: n
// Launch: packed_records, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_RECORD_FLAG_VALUE_COUNT_4E90F857
#define POLYLOOP_RECORD_FLAG_VALUE_COUNT_4E90F857
typedef struct __attribute__((packed)) {
    signed char flag;
    float value;
    short count;
} record_flag_value_count;
static_assert(
    sizeof(record_flag_value_count) == 7, "record_flag_value_count is not laid out as in NumPy");
#endif

extern "C" __global__ void __launch_bounds__(32) packed_records(
    const record_flag_value_count *__restrict__ a,
    record_flag_value_count *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        record_flag_value_count t = a[i];  // load
        t.value *= t.flag;  // change
        b[i] = t;
    }
}
