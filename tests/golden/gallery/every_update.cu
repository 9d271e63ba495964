#ifndef POLYLOOP_FLOORDIV_INT64
#define POLYLOOP_FLOORDIV_INT64
static __device__ __forceinline__ long long floordiv_int64(long long a, long long b) { long long q = a / b; return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q; }
#endif
#ifndef POLYLOOP_FLOORMOD_INT64
#define POLYLOOP_FLOORMOD_INT64
static __device__ __forceinline__ long long floormod_int64(long long a, long long b) { long long r = a % b; return (r != 0 && (r < 0) != (b < 0)) ? r + b : r; }
#endif

extern "C" __global__ void __launch_bounds__(32) every_update(long long *__restrict__ v, double *__restrict__ f, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        v[i] += 3ull;  // insn
        v[n + i] -= 3ull;  // insn_1
        v[2 * n + i] *= 3ull;  // insn_2
        v[3 * n + i] = floordiv_int64(v[3 * n + i], 3);  // insn_3
        v[4 * n + i] = floormod_int64(v[4 * n + i], 3);  // insn_4
        v[5 * n + i] = (unsigned long long)v[5 * n + i] << 3;  // insn_5
        v[6 * n + i] = v[6 * n + i] >> 3;  // insn_6
        v[7 * n + i] = v[7 * n + i] & 3;  // insn_7
        v[8 * n + i] = v[8 * n + i] | 3;  // insn_8
        v[9 * n + i] = v[9 * n + i] ^ 3;  // insn_9
        f[i] = f[i] / 4.0;  // insn_10
        f[n + i] = f[n + i] * f[n + i];  // insn_11
    }
}
