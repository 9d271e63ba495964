// longest_common_subsequence computes
//     for i in [1, n + 1), j in [1, m + 1)
//         length[i, j] = max(if(x[i - 1] == y[j - 1], length[i - 1, j - 1] + 1, 0),
//             length[i - 1, j], length[i, j - 1])
// Sizes: x: n, y: m, length: (n + 1) x (m + 1)
// Launch: longest_common_subsequence, grid (1), block (32)
// Assumes: m >= 1; n >= 1; length overlaps no other array
// Indices have 32 bits: n, m, (n + 1)*(m + 1), m*n + m + n + 1, m + n + 33,
//     n + 128 must not exceed 2147483647

#ifndef POLYLOOP_FLOORDIV_INT32
#define POLYLOOP_FLOORDIV_INT32
static __device__ __forceinline__ int floordiv_int32(int a, int b)
{
    int q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
#endif

extern "C" __global__ void __launch_bounds__(32) longest_common_subsequence(
    const int *x,
    const int *y,
    int *length,
    int n,
    int m)
{
    const int tx = threadIdx.x;
    for (int diagonal = 2; diagonal <= m + n; ++diagonal) {
        for (int i_outer = max((32 - tx) / 32, floordiv_int32(diagonal - m - tx + 31, 32));
                i_outer < min((n - tx + 32) / 32, (diagonal - tx + 31) / 32);
                ++i_outer) {
            const int i = 32 * i_outer + tx, j = diagonal - 32 * i_outer - tx;
            length[i * (m + 1) + j] = max(
                max(
                    x[i - 1] == y[j - 1] ? (int)(length[(i - 1) * (m + 1) + j - 1] + 1u) : 0,
                    length[(i - 1) * (m + 1) + j]),
                length[i * (m + 1) + j - 1]);
        }
        __syncwarp();  // length: writes follow writes
    }
}
