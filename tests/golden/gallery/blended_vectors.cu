// blend computes
//     for i in [0, n)
//         z[i] = x[i] + w[i]*(y[i] - x[i])
// Sizes: x: n, y: n, w: n, z: n
// Launch: blend, grid ((n + 511) / 512), block (128)
// Assumes: n >= 0; x is aligned to 16 bytes; w is aligned to 16 bytes; y is aligned to 16 bytes; z
//     is aligned to 16 bytes; z overlaps no other array
// Indices have 32 bits: n, n + 1027 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) blend(
    const float *__restrict__ x,
    const float *__restrict__ y,
    const float *__restrict__ w,
    float *__restrict__ z,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int position = 512 * bx + 4 * tx;
    if (position + 3 < n) {
        const float4 x_v = *(const float4 *)&x[position];
        const float4 w_v = *(const float4 *)&w[position];
        const float4 y_v = *(const float4 *)&y[position];
        float4 z_v;
        z_v.x = x_v.x + w_v.x * (y_v.x - x_v.x);
        z_v.y = x_v.y + w_v.y * (y_v.y - x_v.y);
        z_v.z = x_v.z + w_v.z * (y_v.z - x_v.z);
        z_v.w = x_v.w + w_v.w * (y_v.w - x_v.w);
        *(float4 *)&z[position] = z_v;
    } else {
        for (int i_inner_inner = 0; i_inner_inner < n - 512 * bx - 4 * tx; ++i_inner_inner) {
            const int i = position + i_inner_inner;
            z[i] = x[i] + w[i] * (y[i] - x[i]);
        }
    }
}
