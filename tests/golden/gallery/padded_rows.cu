// padded_rows computes
//     for i in [0, n), j in [0, 5)
//         t[j, i] = 3*a[i, j]
// Sizes: t: 5 x n, a: n x 5
// Launch: padded_rows, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; t overlaps no other array
// Indices have 32 bits: 160*((n + 31) / 32) + n, 5*n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) padded_rows(
    float *__restrict__ t,
    const float *__restrict__ a,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        for (int j = 0; j < 5; ++j)
            t[j * (32 * ((n + 31) / 32)) + i] = 3.0f * a[i * 5 + j];
    }
}
