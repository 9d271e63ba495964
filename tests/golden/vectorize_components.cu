// pixels computes
//     for i in [0, n), c in [0, 4)
//         x[i, c] = x[i, c]*y[i] + z[i, 3 - c] + b[c] if y[i] > 0
// Sizes: x: n x 4, z: n x 4, y: n, b: 4
// Launch: pixels, grid ((n + 3) / 4), block (4)
// Assumes: n >= 0; x overlaps no other array
// Indices have 32 bits: n, n + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(4) pixels(
    float4 *__restrict__ x,
    const float4 *z,
    const float *y,
    const float4 *b,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 4 * bx + tx;
    if (i < n && y[i] > 0.0f) {
        float4 x_v = x[i];
        const float4 b_v = b[0];
        x_v.x = x_v.x * y[i] + z[i].w + b_v.x;
        x_v.y = x_v.y * y[i] + z[i].z + b_v.y;
        x_v.z = x_v.z * y[i] + z[i].y + b_v.z;
        x_v.w = x_v.w * y[i] + z[i].x + b_v.w;
        x[i] = x_v;
    }
}
