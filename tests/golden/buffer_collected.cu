// rows computes
//     for i in [0, n), k in [0, m)
//         c[i] = c[i] + a[i, k]
// Sizes: a: n x m, c: n
// Launch: rows, grid ((n + 3) / 4), block (4)
// Assumes: m >= 0; n >= 0; c overlaps no other array
// Indices have 32 bits: n*m, n, n + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(4) rows(
    const float *a,
    float *__restrict__ c,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 4 * bx + tx;
    if (m >= 1 && i < n) {
        float c_buf = 0.0f;
        for (int k = 0; k < m; ++k)
            c_buf += a[i * m + k];
        c[i] += c_buf;
    }
}
