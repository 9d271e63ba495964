// exclusive_rows computes
//     for r in [0, m), i in [0, n)
//         b[r, i] = 2*sum(j, a[r, j]) + a[r, i], j in [0, i)
// Sizes: a: m x n, b: m x n
// Launch: exclusive_rows, grid ((m + 31) / 32), block (32)
// Assumes: m >= 0; n >= 0; b overlaps no other array
// Indices have 32 bits: m*n, m + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) exclusive_rows(
    const float *__restrict__ a,
    float *__restrict__ b,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int r = 32 * bx + tx;
    if (r < m) {
        float acc = 0.0f;
        for (int i = 0; i < n; ++i) {
            b[r * n + i] = 2.0f * acc + a[r * n + i];
            acc += a[r * n + i];
        }
    }
}
