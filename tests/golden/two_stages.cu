// rows computes
//     for i in [0, m)
//         s[i] = sum(k, a[i, k]), k in [0, n)
// Sizes: a: m x n, s: m
// Launch: rows, grid ((m + 15) / 16), block (16)
// Assumes: m >= 1; n >= 0; s overlaps no other array
// Indices have 32 bits: m*n, m, 2*n + 14, m + 31, n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) rows(
    const float *__restrict__ a,
    float *__restrict__ s,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    float acc = 0.0f;
    // Full tiles, without tests; the others begin at k_outer_full.
    const int k_outer_full = n / 8;
    for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
        float part = 0.0f;
        if (i < m) {
            for (int k_inner = 0; k_inner < 8; ++k_inner)
                part += a[i * n + 8 * k_outer + k_inner];
        }
        acc += part;
    }
    for (int k_outer = k_outer_full; k_outer < (n + 7) / 8; ++k_outer) {
        float part = 0.0f;
        if (i < m) {
            for (int k_inner = 0; k_inner < n - 8 * k_outer; ++k_inner)
                part += a[i * n + 8 * k_outer + k_inner];
        }
        acc += part;
    }
    if (i < m)
        s[i] = acc;
}
