// axpy computes
//     for i in [0, n)
//         y[i] = a*x[i] + y[i]
// Sizes: x: n, y: n
// Launch: axpy, grid (1), block (1)
// Assumes: n >= 0; x is aligned to 16 bytes; y is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: n, 2*n + 6 must not exceed 2147483647

extern "C" __global__ void axpy(const float *__restrict__ x, float *__restrict__ y, float a, int n)
{
    // Full tiles, without tests; the others begin at i_outer_full.
    const int i_outer_full = n / 4;
    for (int i_outer = 0; i_outer < i_outer_full; ++i_outer) {
        const float4 x_v = *(const float4 *)&x[4 * i_outer];
        float4 y_v = *(const float4 *)&y[4 * i_outer];
        y_v.x = a * x_v.x + y_v.x;
        y_v.y = a * x_v.y + y_v.y;
        y_v.z = a * x_v.z + y_v.z;
        y_v.w = a * x_v.w + y_v.w;
        *(float4 *)&y[4 * i_outer] = y_v;
    }
    for (int i_outer = i_outer_full; i_outer < (n + 3) / 4; ++i_outer) {
        for (int i_inner = 0; i_inner < n - 4 * i_outer; ++i_inner) {
            const int i = 4 * i_outer + i_inner;
            y[i] = a * x[i] + y[i];
        }
    }
}
