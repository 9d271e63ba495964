// fourier_transform computes
//     for k in [0, n)
//         X[k] = sum(j, x[j]*exp(-2j*pi*(j*k % n)/n)), j in [0, n)
// Sizes: x: n, X: n
// Launch: fourier_transform, grid ((n + 7) / 8), block (8)
// Assumes: n >= 1; X overlaps no other array
// Indices have 32 bits: n, n*n + 15*n, n + 15 must not exceed 2147483647

#ifndef POLYLOOP_COMPLEX128
#define POLYLOOP_COMPLEX128
struct __align__(16) complex128 { double re, im; };
#endif

#ifndef POLYLOOP_FLOORMOD_INT32
#define POLYLOOP_FLOORMOD_INT32
static __device__ __forceinline__ int floormod_int32(int a, int b)
{
    int r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
#endif
#ifndef POLYLOOP_COMPLEX128_TIMES_FLOAT64
#define POLYLOOP_COMPLEX128_TIMES_FLOAT64
static __device__ __forceinline__ complex128 operator*(complex128 a, double b)
{
    return {a.re * b, a.im * b};
}
#endif
#ifndef POLYLOOP_COMPLEX128_OVER_FLOAT64
#define POLYLOOP_COMPLEX128_OVER_FLOAT64
static __device__ __forceinline__ complex128 operator/(complex128 a, double b)
{
    return {a.re / b, a.im / b};
}
#endif
#ifndef POLYLOOP_EXP_COMPLEX128
#define POLYLOOP_EXP_COMPLEX128
static __device__ __forceinline__ complex128 exp(complex128 a)
{
    double r = exp(a.re);
    return {r * cos(a.im), a.im == 0 ? a.im : r * sin(a.im)};
}
#endif
#ifndef POLYLOOP_COMPLEX128_TIMES_COMPLEX128
#define POLYLOOP_COMPLEX128_TIMES_COMPLEX128
static __device__ __forceinline__ complex128 operator*(complex128 a, complex128 b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
#endif
#ifndef POLYLOOP_COMPLEX128_PLUS_COMPLEX128
#define POLYLOOP_COMPLEX128_PLUS_COMPLEX128
static __device__ __forceinline__ complex128 operator+(complex128 a, complex128 b)
{
    return {a.re + b.re, a.im + b.im};
}
#endif
#ifndef POLYLOOP_COMPLEX128_ADD_COMPLEX128
#define POLYLOOP_COMPLEX128_ADD_COMPLEX128
static __device__ __forceinline__ complex128 &operator+=(complex128 &a, complex128 b)
{
    return a = a + b;
}
#endif

extern "C" __global__ void __launch_bounds__(8) fourier_transform(
    const complex128 *__restrict__ x,
    complex128 *__restrict__ X,
    int n,
    double pi)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int k = 8 * bx + tx;
    if (k < n) {
        complex128 acc = complex128{0.0, 0.0};
        for (int j = 0; j < n; ++j)
            acc += x[j] * exp(complex128{0.0, -2.0} * pi * floormod_int32(j * k, n) / n);
        X[k] = acc;
    }
}
