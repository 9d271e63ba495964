// softmax_of_half computes
//     for i in [0, n)
//         top = max(j, x[i, j]), j in [0, n)
//         total = sum(k, exp(x[i, k] - top)), k in [0, n)
//         for l in [0, n)
//             y[i, l] = exp(x[i, l] - top)/total
// Sizes: x: n x n, y: n x n
// Launch: softmax_of_half, grid ((n + 15) / 16), block (16)
// Assumes: n >= 1; y overlaps no other array
// Indices have 32 bits: n*n, n + 31 must not exceed 2147483647

#ifndef POLYLOOP_FLOAT16
#define POLYLOOP_FLOAT16
struct float16 { unsigned short bits; };
#endif

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
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

extern "C" __global__ void __launch_bounds__(16) softmax_of_half(
    const float16 *__restrict__ x,
    float16 *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float acc = -INFINITY;  // top
        for (int j = 0; j < n; ++j)
            acc = fmaxf(acc, to_float(x[i * n + j]));  // top
        float16 top = to_float16(acc);  // top
        float acc_0 = 0.0f;  // total
        for (int k = 0; k < n; ++k)
            acc_0 += __expf(to_float(x[i * n + k]) - to_float(top));  // total
        float total = acc_0;  // total
        for (int l = 0; l < n; ++l)
            y[i * n + l] =
                to_float16(__fdividef(__expf(to_float(x[i * n + l]) - to_float(top)), total));
    }
}
