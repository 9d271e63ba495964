// complex_functions computes
//     for i in [0, n)
//         w[i] = exp(1j*real(z[i]))*conj(z[i])/(2 + z[i]*z[i])
//         size[i] = abs(z[i])
//         angle[i] = atan2(imag(z[i]), real(z[i]))
// Sizes: z: n, w: n, size: n, angle: n
// Launch: complex_functions, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; w, size, angle overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_COMPLEX128
#define POLYLOOP_COMPLEX128
struct __align__(16) complex128 { double re, im; };
#endif

#ifndef POLYLOOP_COMPLEX128_TIMES_FLOAT64
#define POLYLOOP_COMPLEX128_TIMES_FLOAT64
static __device__ __forceinline__ complex128 operator*(complex128 a, double b)
{
    return {a.re * b, a.im * b};
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
#ifndef POLYLOOP_CONJ_COMPLEX128
#define POLYLOOP_CONJ_COMPLEX128
static __device__ __forceinline__ complex128 conj(complex128 a) { return {a.re, -a.im}; }
#endif
#ifndef POLYLOOP_COMPLEX128_TIMES_COMPLEX128
#define POLYLOOP_COMPLEX128_TIMES_COMPLEX128
static __device__ __forceinline__ complex128 operator*(complex128 a, complex128 b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
#endif
#ifndef POLYLOOP_FLOAT64_PLUS_COMPLEX128
#define POLYLOOP_FLOAT64_PLUS_COMPLEX128
static __device__ __forceinline__ complex128 operator+(double a, complex128 b)
{
    return {a + b.re, b.im};
}
#endif
#ifndef POLYLOOP_COMPLEX128_OVER_COMPLEX128
#define POLYLOOP_COMPLEX128_OVER_COMPLEX128
static __device__ __forceinline__ complex128 operator/(complex128 a, complex128 b)
{
    if (fabs(b.re) >= fabs(b.im)) {
        double r = b.re == 0 ? b.im : b.im / b.re, d = b.re + b.im * r;
        return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};
    }
    double r = b.re / b.im, d = b.re * r + b.im;
    return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};
}
#endif
#ifndef POLYLOOP_ABS_COMPLEX128
#define POLYLOOP_ABS_COMPLEX128
static __device__ __forceinline__ double abs(complex128 a) { return hypot(a.re, a.im); }
#endif

extern "C" __global__ void __launch_bounds__(32) complex_functions(
    const complex128 *__restrict__ z,
    complex128 *__restrict__ w,
    double *__restrict__ size,
    double *__restrict__ angle,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        w[i] = exp(complex128{0.0, 1.0} * z[i].re) * conj(z[i]) / (2.0 + z[i] * z[i]);
        size[i] = abs(z[i]);
        angle[i] = atan2(z[i].im, z[i].re);
    }
}
