// wavefront computes
//     for i in [1, n), j in [1, n)
//         a[i, j] = a[i - 1, j] + a[i, j - 1]
// Sizes: a: n x n
// Launch: wavefront, grid (1), block (4)
// Assumes: n >= 1
// Indices have 32 bits: n*n, 2*n + 5, n + 16 must not exceed 2147483647

#ifndef POLYLOOP_FLOORDIV_INT32
#define POLYLOOP_FLOORDIV_INT32
static __device__ __forceinline__ int floordiv_int32(int a, int b)
{
    int q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
#endif

extern "C" __global__ void __launch_bounds__(4) wavefront(int *a, int n)
{
    const int tx = threadIdx.x;
    for (int t = 2; t < 2 * n - 1; ++t) {
        for (int i_outer = max((4 - tx) / 4, floordiv_int32(t - n - tx, 4) + 1);
                i_outer < min((n - tx + 3) / 4, (t - tx + 3) / 4);
                ++i_outer) {
            const int i = 4 * i_outer + tx, j = t - 4 * i_outer - tx;
            a[i * n + j] = (unsigned int)a[(i - 1) * n + j] + a[i * n + j - 1];
        }
        __syncwarp();  // a: writes follow writes
    }
}
