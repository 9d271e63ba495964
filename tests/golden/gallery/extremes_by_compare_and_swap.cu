// extremes_by_compare_and_swap computes
//     for i in [0, n), k in [0, 5)
//         low[k] = min(low[k], x[i, k])
//         high[k] = max(high[k], x[i, k])
//         product[k] = product[k]*cast(float64, 1 + 0.01*cast(float64, x[i, k]))
// Sizes: x: n x 5, low: 5, high: 5, product: 5
// Launch: extremes_by_compare_and_swap, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; low, high, product overlap no other array
// Indices have 32 bits: 5*n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_ATOMIC_MIN_FLOAT32
#define POLYLOOP_ATOMIC_MIN_FLOAT32
static __device__ __forceinline__ void atomic_min_float32(float *at, float value)
{
    unsigned int *word = (unsigned int *)at, seen = *word, expected;
    do {
        expected = seen;
        float old = __uint_as_float(expected);
        seen = atomicCAS(word, expected, __float_as_uint(fminf(old, value)));
    } while (seen != expected);
}
#endif
#ifndef POLYLOOP_ATOMIC_MAX_FLOAT32
#define POLYLOOP_ATOMIC_MAX_FLOAT32
static __device__ __forceinline__ void atomic_max_float32(float *at, float value)
{
    unsigned int *word = (unsigned int *)at, seen = *word, expected;
    do {
        expected = seen;
        float old = __uint_as_float(expected);
        seen = atomicCAS(word, expected, __float_as_uint(fmaxf(old, value)));
    } while (seen != expected);
}
#endif
#ifndef POLYLOOP_ATOMIC_PRODUCT_FLOAT64
#define POLYLOOP_ATOMIC_PRODUCT_FLOAT64
static __device__ __forceinline__ void atomic_product_float64(double *at, double value)
{
    unsigned long long *word = (unsigned long long *)at, seen = *word, expected;
    do {
        expected = seen;
        double old = __longlong_as_double((long long)expected);
        seen = atomicCAS(word, expected, (unsigned long long)__double_as_longlong(old * value));
    } while (seen != expected);
}
#endif

extern "C" __global__ void __launch_bounds__(32) extremes_by_compare_and_swap(
    const float *__restrict__ x,
    float *__restrict__ low,
    float *__restrict__ high,
    double *__restrict__ product,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        for (int k = 0; k < 5; ++k) {
            atomic_min_float32(&low[k], x[i * 5 + k]);
            atomic_max_float32(&high[k], x[i * 5 + k]);
            atomic_product_float64(&product[k], 1.0 + 0.01 * (double)x[i * 5 + k]);
        }
    }
}
