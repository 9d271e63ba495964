// mandelbrot computes
//     for i in [0, n), j in [0, n)
//         z = 0
//         steps = 0
//         for t in [0, 12)
//             z = if(real(z)**2 + imag(z)**2 <= 4, z**2 + c[i, j], z)
//             steps = steps + (real(z)**2 + imag(z)**2 <= 4)
//         count[i, j] = steps
// Sizes: c: n x n, count: n x n
// Launch: mandelbrot, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8)
// Assumes: n >= 0; count overlaps no other array
// Indices have 32 bits: n*n, n + 15 must not exceed 2147483647

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
#ifndef POLYLOOP_SQUARE_FLOAT32
#define POLYLOOP_SQUARE_FLOAT32
static __device__ __forceinline__ float square_float32(float a) { return a * a; }
#endif

extern "C" __global__ void __launch_bounds__(64) mandelbrot(
    const complex64 *__restrict__ c,
    int *__restrict__ count,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    if (i < n && j < n) {
        complex64 z = complex64{0.0f, 0.0f};  // z0
        int steps = 0;  // s0
        for (int t = 0; t < 12; ++t) {
            // z1
            z = square_float32(z.re) + square_float32(z.im) <= 4.0f ? z * z + c[i * n + j] : z;
            steps += (unsigned int)(square_float32(z.re) + square_float32(z.im) <= 4.0f);  // s1
        }
        count[i * n + j] = steps;
    }
}
