extern "C" __global__ void __launch_bounds__(64) triangle(float *__restrict__ l, const float *__restrict__ u, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (8 * by + ty < n && 8 * bx + tx <= 8 * by + ty)
        l[(8 * by + ty) * n + 8 * bx + tx] = 2.0f * u[(8 * bx + tx) * n + 8 * by + ty];
}
