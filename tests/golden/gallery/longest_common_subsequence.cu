#ifndef POLYLOOP_FLOORDIV_INT32
#define POLYLOOP_FLOORDIV_INT32
static __device__ __forceinline__ int floordiv_int32(int a, int b) { int q = a / b; return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q; }
#endif

extern "C" __global__ void __launch_bounds__(32) longest_common_subsequence(const int *x, const int *y, int *length, int n, int m)
{
    const int tx = threadIdx.x;
    for (int diagonal = 2; diagonal <= m + n; ++diagonal) {
        for (int i_outer = max((32 - tx) / 32, floordiv_int32(diagonal - m - tx + 31, 32)); i_outer < min((n - tx + 32) / 32, (diagonal - tx + 31) / 32); ++i_outer) {
            const int i = 32 * i_outer + tx, j = diagonal - 32 * i_outer - tx;
            length[i * (m + 1) + j] = max(max(x[i - 1] == y[j - 1] ? (int)(length[(i - 1) * (m + 1) + j - 1] + 1u) : 0, length[(i - 1) * (m + 1) + j]), length[i * (m + 1) + j - 1]);
        }
        __syncwarp();
    }
}
