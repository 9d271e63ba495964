// lu computes
//     for k in [0, n - 1)
//         for i in [k + 1, n)
//             a[i, k] = a[i, k]/a[k, k]
//         for i in [k + 1, n), j in [k + 1, n)
//             a[i, j] = a[i, j] - a[i, k]*a[k, j]
// Sizes: a: n x n
// Launch: lu, grid (1), block (8)
// Assumes: n >= 0
// Indices have 32 bits: n*n, n + 32 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) lu(float *a, int n)
{
    const int tx = threadIdx.x;
    for (int k = 0; k < n - 1; ++k) {
        for (int i_outer = (k - tx + 8) / 8; i_outer < (n - tx + 7) / 8; ++i_outer)
            a[(8 * i_outer + tx) * n + k] /= a[k * n + k];  // scale
        for (int i_outer = (k - tx + 8) / 8; i_outer < (n - tx + 7) / 8; ++i_outer) {
            const int i = 8 * i_outer + tx;
            for (int j = k + 1; j < n; ++j)
                a[i * n + j] -= a[i * n + k] * a[k * n + j];  // update
        }
        __syncwarp();  // a: writes follow writes
    }
}
