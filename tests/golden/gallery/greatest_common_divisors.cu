// greatest_common_divisors computes
//     for i in [0, n)
//         g[i] = gcd(a[i], b[i])
//         zeros[i] = clz(a[i])
//         size[i] = max(abs(a[i]), abs(b[i]))
// Sizes: a: n, b: n, g: n, zeros: n, size: n
// Launch: greatest_common_divisors, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; g, zeros, size overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_GCD_INT32
#define POLYLOOP_GCD_INT32
static __device__ __forceinline__ int gcd_int32(int a, int b)
{
    unsigned int x = a < 0 ? 0 - (unsigned int)a : (unsigned int)a,
        y = b < 0 ? 0 - (unsigned int)b : (unsigned int)b;
    while (y != 0) {
        unsigned int r = x % y;
        x = y;
        y = r;
    }
    return (int)x;
}
#endif
#ifndef POLYLOOP_CLZ_INT32
#define POLYLOOP_CLZ_INT32
static __device__ __forceinline__ int clz_int32(int a) { return a == 0 ? 32 : __clz(a); }
#endif
#ifndef POLYLOOP_ABS_INT32
#define POLYLOOP_ABS_INT32
static __device__ __forceinline__ int abs_int32(int a)
{
    return a < 0 ? (int)(0 - (unsigned int)a) : a;
}
#endif

extern "C" __global__ void __launch_bounds__(32) greatest_common_divisors(
    const int *__restrict__ a,
    const int *__restrict__ b,
    int *__restrict__ g,
    int *__restrict__ zeros,
    int *__restrict__ size,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        g[i] = gcd_int32(a[i], b[i]);
        zeros[i] = clz_int32(a[i]);
        size[i] = max(abs_int32(a[i]), abs_int32(b[i]));
    }
}
