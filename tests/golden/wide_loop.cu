// wide computes
//     for i in [0, n)
//         t = 2*x[i]
//         y[i] = t*t + x[i]
// Sizes: x: n, y: n
// Launch: wide, grid (1), block (1)
// Assumes: n >= 0; x is aligned to 16 bytes; y is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: n, 2*n + 6 must not exceed 2147483647

extern "C" __global__ void wide(const float *__restrict__ x, float *__restrict__ y, int n)
{
    // Full tiles, without tests; the others begin at i_outer_full.
    const int i_outer_full = n / 4;
    float t[4];
    for (int i_outer = 0; i_outer < i_outer_full; ++i_outer) {
        const float4 x_v = *(const float4 *)&x[4 * i_outer];
        t[0] = 2.0f * x_v.x;
        t[1] = 2.0f * x_v.y;
        t[2] = 2.0f * x_v.z;
        t[3] = 2.0f * x_v.w;
        float4 y_v;
        y_v.x = t[0] * t[0] + x_v.x;
        y_v.y = t[1] * t[1] + x_v.y;
        y_v.z = t[2] * t[2] + x_v.z;
        y_v.w = t[3] * t[3] + x_v.w;
        *(float4 *)&y[4 * i_outer] = y_v;
    }
    for (int i_outer = i_outer_full; i_outer < (n + 3) / 4; ++i_outer) {
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 4 * i_outer + i_inner;
            if (i < n) {
                t[i_inner] = 2.0f * x[i];
                y[i] = t[i_inner] * t[i_inner] + x[i];
            }
        }
    }
}
