// blur computes
//     for i in [1, n - 1)
//         out[i] = a[i - 1] + a[i] + a[i + 1]
// Sizes: a: n, out: n
// Launch: blur, grid (1), block (1)
// Assumes: n >= 3; out overlaps no other array
// Indices have 32 bits: n, n + 30 must not exceed 2147483647

extern "C" __global__ void blur(const float *__restrict__ a, float *__restrict__ out, int n)
{
    for (int i_inner = 1; i_inner < min(16, n - 1); ++i_inner)
        out[i_inner] = a[i_inner - 1] + a[i_inner] + a[i_inner + 1];
    for (int i_outer = 1; i_outer < (n + 14) / 16 - 1; ++i_outer) {
        for (int i_inner = 0; i_inner < 16; ++i_inner) {
            const int i = 16 * i_outer + i_inner;
            out[i] = a[i - 1] + a[i] + a[i + 1];
        }
    }
    for (int i_outer = max(1, (n + 14) / 16 - 1); i_outer < (n + 14) / 16; ++i_outer) {
        for (int i_inner = 0; i_inner < min(16, n - 16 * i_outer - 1); ++i_inner) {
            const int i = 16 * i_outer + i_inner;
            out[i] = a[i - 1] + a[i] + a[i + 1];
        }
    }
}
