// rows computes
//     for i in [0, m)
//         s[i] = sum(k, a[i, k]), k in [0, n)
// Sizes: a: m x n, s: m
// Launch: rows, grid ((m + 7) / 8), block (8)
// Assumes: m >= 1; n >= 1; s overlaps no other array
// Indices have 32 bits: m*n, m, 2*n + 6, m + 15, n + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) rows(
    const float *__restrict__ a,
    float *__restrict__ s,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    if (i < m) {
        float acc = 0.0f;
        float part[4];
        #pragma unroll
        for (int k_inner = 0; k_inner < 4; ++k_inner)
            part[k_inner] = 0.0f;
        // Full tiles, without tests; the others begin at k_outer_full.
        const int k_outer_full = n / 4;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 4; ++k_inner)
                part[k_inner] += a[i * n + 4 * k_outer + k_inner];
        }
        for (int k_outer = k_outer_full; k_outer < (n + 3) / 4; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 4; ++k_inner) {
                const int k = 4 * k_outer + k_inner;
                if (k < n)
                    part[k_inner] += a[i * n + k];
            }
        }
        #pragma unroll
        for (int k_inner = 0; k_inner < 4; ++k_inner)
            acc += part[k_inner];
        s[i] = acc;
    }
}
