// rows_smoothed computes
//     for i in [0, m), j in [0, n)
//         b[i, j] = if(j > 0, a[i, j - 1], 0) + 2*a[i, j] + if(j < n - 1, a[i, j + 1], 0)
// Sizes: a: m x n, b: m x n
// Launch: rows_smoothed, grid ((n / 4 + 7) / 8, m), block (8)
// Assumes: n % 4 == 0; m >= 1; n >= 4; a is aligned to 16 bytes; b is aligned to 16 bytes; b
//     overlaps no other array
// Indices have 32 bits: m*n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) rows_smoothed(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    int m)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int position = 32 * bx + 4 * tx;
    if (position + 3 < n) {
        const int offset = by * n + position;
        const float4 a_v = *(const float4 *)&a[offset];
        float4 b_v;
        b_v.x = (position > 0 ? a[offset - 1] : 0.0f) + 2.0f * a_v.x + a_v.y;
        b_v.y = a_v.x + 2.0f * a_v.y + a_v.z;
        b_v.z = a_v.y + 2.0f * a_v.z + a_v.w;
        b_v.w = a_v.z + 2.0f * a_v.w + (position + 3 < n - 1 ? a[offset + 4] : 0.0f);
        *(float4 *)&b[offset] = b_v;
    }
}
