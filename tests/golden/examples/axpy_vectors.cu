// axpy_vectors computes
//     for i in [0, n)
//         z[i] = alpha*x[i] + y[i]
// Sizes: x: n, y: n, z: n
// Launch: axpy_vectors, grid ((n + 1023) / 1024), block (256)
// Assumes: n >= 1; x is aligned to 16 bytes; y is aligned to 16 bytes; z is aligned to 16 bytes; z
//     overlaps no other array
// Indices have 32 bits: n, n + 2051 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) axpy_vectors(
    const float *__restrict__ x,
    const float *__restrict__ y,
    float *__restrict__ z,
    float alpha,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int position = 1024 * bx + 4 * tx;
    if (position + 3 < n) {
        const float4 x_v = *(const float4 *)&x[position];
        const float4 y_v = *(const float4 *)&y[position];
        float4 z_v;
        z_v.x = alpha * x_v.x + y_v.x;
        z_v.y = alpha * x_v.y + y_v.y;
        z_v.z = alpha * x_v.z + y_v.z;
        z_v.w = alpha * x_v.w + y_v.w;
        *(float4 *)&z[position] = z_v;
    } else {
        for (int i_inner_inner = 0; i_inner_inner < n - 1024 * bx - 4 * tx; ++i_inner_inner) {
            const int i = position + i_inner_inner;
            z[i] = alpha * x[i] + y[i];
        }
    }
}
