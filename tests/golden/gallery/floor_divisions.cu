// floor_divisions computes
//     for i in [0, n)
//         q[i] = a[i] // b[i]
//         r[i] = a[i] % b[i]
//         wrapped[i] = (a[i] - 3) % 7
// Sizes: a: n, b: n, q: n, r: n, wrapped: n
// Launch: floor_divisions, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; q, r, wrapped overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_DIVIDE_INT32
#define POLYLOOP_DIVIDE_INT32
static __device__ __forceinline__ int divide_int32(int a, int b)
{
    if (b == -1)
        return (int)(0 - (unsigned int)a);
    int q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
#endif
#ifndef POLYLOOP_MODULO_INT32
#define POLYLOOP_MODULO_INT32
static __device__ __forceinline__ int modulo_int32(int a, int b)
{
    if (b == -1)
        return 0;
    int r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
#endif
#ifndef POLYLOOP_FLOORMOD_INT32
#define POLYLOOP_FLOORMOD_INT32
static __device__ __forceinline__ int floormod_int32(int a, int b)
{
    int r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
#endif

extern "C" __global__ void __launch_bounds__(32) floor_divisions(
    const int *__restrict__ a,
    const int *__restrict__ b,
    int *__restrict__ q,
    int *__restrict__ r,
    int *__restrict__ wrapped,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        q[i] = divide_int32(a[i], b[i]);
        r[i] = modulo_int32(a[i], b[i]);
        wrapped[i] = floormod_int32((int)(a[i] - 3u), 7);
    }
}
