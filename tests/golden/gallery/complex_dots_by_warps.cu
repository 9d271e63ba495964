// complex_dots_by_warps computes
//     for i in [0, m)
//         y[i] = sum(k, a[i, k]*conj(b[i, k])), k in [0, n)
// Sizes: a: m x n, b: m x n, y: m
// Launch: complex_dots_by_warps, grid ((m + 7) / 8), block (32, 4)
// Assumes: m >= 0; n >= 1; y overlaps no other array
// Indices have 32 bits: m*n, m, n + 96, m + 17 must not exceed 2147483647

#ifndef POLYLOOP_COMPLEX64
#define POLYLOOP_COMPLEX64
struct __align__(8) complex64 { float re, im; };
#endif

#ifndef POLYLOOP_CONJ_COMPLEX64
#define POLYLOOP_CONJ_COMPLEX64
static __device__ __forceinline__ complex64 conj(complex64 a) { return {a.re, -a.im}; }
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
#ifndef POLYLOOP_COMPLEX64_ADD_COMPLEX64
#define POLYLOOP_COMPLEX64_ADD_COMPLEX64
static __device__ __forceinline__ complex64 &operator+=(complex64 &a, complex64 b)
{
    return a = a + b;
}
#endif
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ complex64 complex_dots_by_warps_exchanged_complex64(
    complex64 x,
    int step)
{
    x.re = __shfl_xor_sync(0xffffffff, x.re, step);
    x.im = __shfl_xor_sync(0xffffffff, x.im, step);
    return x;
}
// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ complex64 complex_dots_by_warps_warp_sum_complex64(complex64 x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += complex_dots_by_warps_exchanged_complex64(x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(128) complex_dots_by_warps(
    const complex64 *__restrict__ a,
    const complex64 *__restrict__ b,
    complex64 *__restrict__ y,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (8 * bx + 7 < m) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        complex64 acc[2];
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner)
            acc[i_inner] = complex64{0.0f, 0.0f};
        for (int k = tx; k < n; k += 32) {
            #pragma unroll
            for (int i_inner = 0; i_inner < 2; ++i_inner) {
                const int i = 8 * bx + 2 * ty + i_inner;
                acc[i_inner] += a[i * n + k] * conj(b[i * n + k]);
            }
        }
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner)
            acc[i_inner] = complex_dots_by_warps_warp_sum_complex64(acc[i_inner]);
        if (tx == 0) {
            #pragma unroll
            for (int i_inner = 0; i_inner < 2; ++i_inner)
                y[8 * bx + 2 * ty + i_inner] = acc[i_inner];
        }
    } else {
        complex64 acc[2];
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner) {
            if (8 * bx + i_inner < m)
                acc[i_inner] = complex64{0.0f, 0.0f};
        }
        if (8 * bx + 2 * ty < m) {
            for (int k = tx; k < n; k += 32) {
                #pragma unroll
                for (int i_inner = 0; i_inner < 2; ++i_inner) {
                    const int i = 8 * bx + 2 * ty + i_inner;
                    if (i < m)
                        acc[i_inner] += a[i * n + k] * conj(b[i * n + k]);
                }
            }
        }
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner) {
            if (8 * bx + i_inner < m)
                acc[i_inner] = complex_dots_by_warps_warp_sum_complex64(acc[i_inner]);
        }
        if (tx == 0 && 8 * bx + 2 * ty < m) {
            #pragma unroll
            for (int i_inner = 0; i_inner < 2; ++i_inner) {
                const int i = 8 * bx + 2 * ty + i_inner;
                if (i < m)
                    y[i] = acc[i_inner];
            }
        }
    }
}
