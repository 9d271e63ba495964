// half_axpy computes
//     for i in [0, n)
//         y[i] = 1.5*x[i] + y[i]
// Sizes: x: n, y: n
// Launch: half_axpy, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_FLOAT16
#define POLYLOOP_FLOAT16
struct float16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_WIDEN_FLOAT16
#define POLYLOOP_WIDEN_FLOAT16
static __device__ __forceinline__ float to_float(float16 a)
{
    float b;
    asm("cvt.f32.f16 %0, %1;" : "=f"(b) : "h"(a.bits));
    return b;
}
#endif
#ifndef POLYLOOP_NARROW_FLOAT16
#define POLYLOOP_NARROW_FLOAT16
static __device__ __forceinline__ float16 to_float16(float a)
{
    float16 b;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b.bits) : "f"(a));
    return b;
}
#endif

extern "C" __global__ void __launch_bounds__(32) half_axpy(
    const float16 *__restrict__ x,
    float16 *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n)
        y[i] = to_float16(1.5f * to_float(x[i]) + to_float(y[i]));
}
