// nested computes
//     for i in [1, n - 1)
//         out[i] = f(i) + f(i - 1)
// Sizes: a: n, out: n
// Launch: nested, grid (1), block (1)
// Assumes: n >= 3; out overlaps no other array
// Indices have 32 bits: n, 2*n + 29, n + 32 must not exceed 2147483647

extern "C" __global__ void nested(const float *__restrict__ a, float *__restrict__ out, int n)
{
    // Full tiles, without tests; the others begin at i_outer_full.
    const int i_outer_full = (n + 15) / 16 - 1;
    float f_value[17];
    float a_fetch[18];
    for (int i_outer = 0; i_outer < i_outer_full; ++i_outer) {
        for (int a_dim_0 = max(0, 1 - 16 * i_outer); a_dim_0 < 18; ++a_dim_0)
            a_fetch[a_dim_0] = a[16 * i_outer + a_dim_0 - 1];
        for (int f_dim_0 = max(0, 1 - 16 * i_outer); f_dim_0 < 17; ++f_dim_0)
            f_value[f_dim_0] = 3.0f * a_fetch[f_dim_0] + 3.0f * a_fetch[f_dim_0 + 1];
        for (int i_inner = max(0, 1 - 16 * i_outer); i_inner < 16; ++i_inner)
            out[16 * i_outer + i_inner] = f_value[i_inner + 1] + f_value[i_inner];
    }
    for (int i_outer = i_outer_full; i_outer < (n + 14) / 16; ++i_outer) {
        for (int a_dim_0 = max(0, 1 - 16 * i_outer); a_dim_0 <= n - 16 * i_outer; ++a_dim_0)
            a_fetch[a_dim_0] = a[16 * i_outer + a_dim_0 - 1];
        for (int f_dim_0 = max(0, 1 - 16 * i_outer); f_dim_0 < n - 16 * i_outer; ++f_dim_0)
            f_value[f_dim_0] = 3.0f * a_fetch[f_dim_0] + 3.0f * a_fetch[f_dim_0 + 1];
        for (int i_inner = max(0, 1 - 16 * i_outer); i_inner < n - 16 * i_outer - 1; ++i_inner)
            out[16 * i_outer + i_inner] = f_value[i_inner + 1] + f_value[i_inner];
    }
}
