// bias_gelu computes
//     for i in [0, n), j in [0, m)
//         h = x[i, j] + b[j]
//         y[i, j] = 0.5*h*(1 + tanh(0.7978845608*(h + 0.044715*h*h*h)))
// Sizes: x: n x m, y: n x m, b: m
// Launch: bias_gelu, grid ((m / 4 + 63) / 64, n), block (64)
// Assumes: m % 4 == 0; m >= 4; n >= 0; x is aligned to 16 bytes; b is aligned to 16 bytes; y is
//     aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: n*m, m, m + 511 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) bias_gelu(
    const float *__restrict__ x,
    float *__restrict__ y,
    const float *__restrict__ b,
    int n,
    int m)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int position = 256 * bx + 4 * tx;
    if (position + 3 < m) {
        const float4 x_v = *(const float4 *)&x[by * m + position];
        const float4 b_v = *(const float4 *)&b[position];
        float h[4];
        h[0] = x_v.x + b_v.x;
        h[1] = x_v.y + b_v.y;
        h[2] = x_v.z + b_v.z;
        h[3] = x_v.w + b_v.w;
        float4 y_v;
        y_v.x = 0.5f * h[0] * (1.0f + tanhf(0.7978846f * (h[0] + 0.044715f * h[0] * h[0] * h[0])));
        y_v.y = 0.5f * h[1] * (1.0f + tanhf(0.7978846f * (h[1] + 0.044715f * h[1] * h[1] * h[1])));
        y_v.z = 0.5f * h[2] * (1.0f + tanhf(0.7978846f * (h[2] + 0.044715f * h[2] * h[2] * h[2])));
        y_v.w = 0.5f * h[3] * (1.0f + tanhf(0.7978846f * (h[3] + 0.044715f * h[3] * h[3] * h[3])));
        *(float4 *)&y[by * m + position] = y_v;
    }
}
