extern "C" __global__ void __launch_bounds__(4) pixels(float4 *__restrict__ x, const float4 *z, const float *y, const float4 *b, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (4 * bx + tx < n && y[4 * bx + tx] > 0.0f) {
        float4 x_v = x[4 * bx + tx];
        const float4 b_v = b[0];
        x_v.x = x_v.x * y[4 * bx + tx] + z[4 * bx + tx].w + b_v.x;
        x_v.y = x_v.y * y[4 * bx + tx] + z[4 * bx + tx].z + b_v.y;
        x_v.z = x_v.z * y[4 * bx + tx] + z[4 * bx + tx].y + b_v.z;
        x_v.w = x_v.w * y[4 * bx + tx] + z[4 * bx + tx].x + b_v.w;
        x[4 * bx + tx] = x_v;
    }
}
