// butterflies computes
//     for i in [0, n)
//         turned = w[i]*b[i]
//         top[i] = a[i] + turned
//         bottom[i] = a[i] - turned
// Sizes: a: n, b: n, w: n, top: n, bottom: n
// Launch: butterflies, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; top, bottom overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_COMPLEX64
#define POLYLOOP_COMPLEX64
struct __align__(8) complex64 { float re, im; };
#endif

#ifndef POLYLOOP_COMPLEX64_TIMES_COMPLEX64
#define POLYLOOP_COMPLEX64_TIMES_COMPLEX64
static __device__ __forceinline__ complex64 operator*(complex64 a, complex64 b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
#endif
#ifndef POLYLOOP_COMPLEX64_PLUS_COMPLEX64
#define POLYLOOP_COMPLEX64_PLUS_COMPLEX64
static __device__ __forceinline__ complex64 operator+(complex64 a, complex64 b)
{
    return {a.re + b.re, a.im + b.im};
}
#endif
#ifndef POLYLOOP_COMPLEX64_MINUS_COMPLEX64
#define POLYLOOP_COMPLEX64_MINUS_COMPLEX64
static __device__ __forceinline__ complex64 operator-(complex64 a, complex64 b)
{
    return {a.re - b.re, a.im - b.im};
}
#endif

extern "C" __global__ void __launch_bounds__(32) butterflies(
    const complex64 *__restrict__ a,
    const complex64 *__restrict__ b,
    const complex64 *__restrict__ w,
    complex64 *__restrict__ top,
    complex64 *__restrict__ bottom,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        complex64 turned = w[i] * b[i];
        top[i] = a[i] + turned;
        bottom[i] = a[i] - turned;
    }
}
