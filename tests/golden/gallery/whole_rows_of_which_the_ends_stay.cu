// smoothed computes
//     for i in [0, 3), j in [0, n)
//         mean = (left + x[i, j] + right)/3
//         y[i, j] = if(j > 0 and j < n - 1, mean, y[i, j])
// Sizes: x: 3 x n, y: 3 x n
// Launch: smoothed, grid ((n / 4 + 7) / 8), block (8, 3)
// Assumes: n % 4 == 0; n >= 4; x is aligned to 16 bytes; y is aligned to 16 bytes; y overlaps no
//     other array
// Indices have 32 bits: 3*n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(24) smoothed(
    const float *x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (32 * bx + 4 * tx + 3 < n) {
        const int offset = ty * n + 32 * bx + 4 * tx;
        const float4 x_v = *(const float4 *)&x[offset];
        float mean[4];
        mean[0] = ((32 * bx + 4 * tx > 0 ? x[offset - 1] : 0.0f) + x_v.x + x_v.y) / 3.0f;
        mean[1] = (x_v.x + x_v.y + x_v.z) / 3.0f;
        mean[2] = (x_v.y + x_v.z + x_v.w) / 3.0f;
        mean[3] = (x_v.z + x_v.w + (32 * bx + 4 * tx + 3 < n - 1 ? x[offset + 4] : 0.0f)) / 3.0f;
        float4 y_v;
        y_v.x = 32 * bx + 4 * tx > 0 ? mean[0] : y[offset];
        y_v.y = mean[1];
        y_v.z = mean[2];
        y_v.w = 32 * bx + 4 * tx + 3 < n - 1 ? mean[3] : y[offset + 3];
        *(float4 *)&y[offset] = y_v;
    }
}
