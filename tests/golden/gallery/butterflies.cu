#ifndef POLYLOOP_COMPLEX64
#define POLYLOOP_COMPLEX64
struct __align__(8) complex64 { float re, im; };
#endif

#ifndef POLYLOOP_COMPLEX64_TIMES_COMPLEX64
#define POLYLOOP_COMPLEX64_TIMES_COMPLEX64
static __device__ __forceinline__ complex64 operator*(complex64 a, complex64 b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
#endif
#ifndef POLYLOOP_COMPLEX64_PLUS_COMPLEX64
#define POLYLOOP_COMPLEX64_PLUS_COMPLEX64
static __device__ __forceinline__ complex64 operator+(complex64 a, complex64 b) { return {a.re + b.re, a.im + b.im}; }
#endif
#ifndef POLYLOOP_COMPLEX64_MINUS_COMPLEX64
#define POLYLOOP_COMPLEX64_MINUS_COMPLEX64
static __device__ __forceinline__ complex64 operator-(complex64 a, complex64 b) { return {a.re - b.re, a.im - b.im}; }
#endif

extern "C" __global__ void __launch_bounds__(32) butterflies(const complex64 *__restrict__ a, const complex64 *__restrict__ b, const complex64 *__restrict__ w, complex64 *__restrict__ top, complex64 *__restrict__ bottom, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        complex64 turned = w[i] * b[i];  // insn
        top[i] = a[i] + turned;  // insn_1
        bottom[i] = a[i] - turned;  // insn_2
    }
}
