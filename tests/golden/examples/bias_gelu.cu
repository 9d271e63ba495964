// bias_gelu computes
//     for i in [0, m), j in [0, n)
//         t = x[i, j] + b[j]
//         y[i, j] = gelu(t)
// Sizes: x: m x n, y: m x n, b: n
// Launch: bias_gelu, grid ((n / 4 + 255) / 256, m), block (256)
// Assumes: n % 4 == 0; m >= 1; n >= 4; x is aligned to 16 bytes; b is aligned to 16 bytes; y is
//     aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: m*n, n, n + 2047 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) bias_gelu(
    const float *__restrict__ x,
    float *__restrict__ y,
    const float *__restrict__ b,
    int m,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int position = 1024 * bx + 4 * tx;
    if (position + 3 < n) {
        const float4 x_v = *(const float4 *)&x[by * n + position];
        const float4 b_v = *(const float4 *)&b[position];
        float t[4];
        t[0] = x_v.x + b_v.x;
        t[1] = x_v.y + b_v.y;
        t[2] = x_v.z + b_v.z;
        t[3] = x_v.w + b_v.w;
        float4 y_v;
        y_v.x = 0.5f * t[0] * (1.0f + erff(0.70710677f * t[0]));
        y_v.y = 0.5f * t[1] * (1.0f + erff(0.70710677f * t[1]));
        y_v.z = 0.5f * t[2] * (1.0f + erff(0.70710677f * t[2]));
        y_v.w = 0.5f * t[3] * (1.0f + erff(0.70710677f * t[3]));
        *(float4 *)&y[by * n + position] = y_v;
    }
}
