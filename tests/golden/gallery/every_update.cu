// every_update computes
//     for i in [0, n)
//         v[0, i] = v[0, i] + 3
//         v[1, i] = v[1, i] - 3
//         v[2, i] = v[2, i]*3
//         v[3, i] = v[3, i] // 3
//         v[4, i] = v[4, i] % 3
//         v[5, i] = v[5, i] << 3
//         v[6, i] = v[6, i] >> 3
//         v[7, i] = v[7, i] & 3
//         v[8, i] = v[8, i] | 3
//         v[9, i] = v[9, i] ^ 3
//         f[0, i] = f[0, i]/4
//         f[1, i] = f[1, i]**2
// Sizes: v: 10 x n, f: 2 x n
// Launch: every_update, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; v, f overlap no other array
// Indices have 32 bits: 10*n, 2*n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_FLOORDIV_INT64
#define POLYLOOP_FLOORDIV_INT64
static __device__ __forceinline__ long long floordiv_int64(long long a, long long b)
{
    long long q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
#endif
#ifndef POLYLOOP_FLOORMOD_INT64
#define POLYLOOP_FLOORMOD_INT64
static __device__ __forceinline__ long long floormod_int64(long long a, long long b)
{
    long long r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
#endif

extern "C" __global__ void __launch_bounds__(32) every_update(
    long long *__restrict__ v,
    double *__restrict__ f,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        v[i] += 3ull;
        v[n + i] -= 3ull;
        v[2 * n + i] *= 3ull;
        v[3 * n + i] = floordiv_int64(v[3 * n + i], 3);
        v[4 * n + i] = floormod_int64(v[4 * n + i], 3);
        v[5 * n + i] = (unsigned long long)v[5 * n + i] << 3;
        v[6 * n + i] = v[6 * n + i] >> 3;
        v[7 * n + i] = v[7 * n + i] & 3;
        v[8 * n + i] = v[8 * n + i] | 3;
        v[9 * n + i] = v[9 * n + i] ^ 3;
        f[i] /= 4.0;
        f[n + i] = f[n + i] * f[n + i];
    }
}
