// loop_kernel computes
//     for i in [0, n)
//         y[i] = 0.5*x[i]
// Sizes: x: n, y: n
// Launch: loop_kernel, grid ((n + 1023) / 1024), block (128)
// Assumes: n >= 0; x is aligned to 16 bytes; y is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: n, n + 2055 must not exceed 2147483647

#ifndef POLYLOOP_FLOAT16
#define POLYLOOP_FLOAT16
struct float16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_FLOAT16X8
#define POLYLOOP_FLOAT16X8
struct __align__(16) float16x8 { float16 e[8]; };
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

extern "C" __global__ void __launch_bounds__(128) loop_kernel(
    const float16 *__restrict__ x,
    float16 *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int position = 1024 * bx + 8 * tx;
    if (position + 7 < n) {
        const float16x8 x_v = *(const float16x8 *)&x[position];
        float16x8 y_v;
        #pragma unroll
        for (int i_inner = 0; i_inner < 8; ++i_inner)
            y_v.e[i_inner] = to_float16(0.5f * to_float(x_v.e[i_inner]));
        *(float16x8 *)&y[position] = y_v;
    } else {
        for (int i_inner = 0; i_inner < n - 1024 * bx - 8 * tx; ++i_inner) {
            const int i = position + i_inner;
            y[i] = to_float16(0.5f * to_float(x[i]));
        }
    }
}
