// HIP C++ for gfx942: waves of 64 lanes

// saxpy computes
//     for i in [0, n)
//         y[i] = a*x[i] + y[i]
// Sizes: x: n, y: n
// Launch: saxpy, grid ((n / 4 + 63) / 64), block (64)
// Assumes: n % 4 == 0; n >= 0; x is aligned to 16 bytes; y is aligned to 16 bytes; y overlaps no
//     other array
// Indices have 32 bits: n, n + 511 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) saxpy(
    const float *__restrict__ x,
    float *__restrict__ y,
    float a,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int position = 256 * bx + 4 * tx;
    if (position + 3 < n) {
        const float4 x_v = *(const float4 *)&x[position];
        float4 y_v = *(const float4 *)&y[position];
        y_v.x = a * x_v.x + y_v.x;
        y_v.y = a * x_v.y + y_v.y;
        y_v.z = a * x_v.z + y_v.z;
        y_v.w = a * x_v.w + y_v.w;
        *(float4 *)&y[position] = y_v;
    }
}
