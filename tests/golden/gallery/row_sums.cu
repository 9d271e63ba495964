// row_sums computes
//     for i in [0, n)
//         s[i] = sum(j, a[i, j]), j in [0, m)
// Sizes: a: n x m, s: n
// Launch: row_sums, grid ((n + 31) / 32), block (32)
// Assumes: m >= 0; n >= 0; s overlaps no other array
// Indices have 32 bits: n*m, n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) row_sums(
    const float *__restrict__ a,
    float *__restrict__ s,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float acc = 0.0f;
        for (int j = 0; j < m; ++j)
            acc += a[i * m + j];
        s[i] = acc;
    }
}
