extern "C" __global__ void __launch_bounds__(64) triangle(float *__restrict__ l, const float *__restrict__ u, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    if (i < n && j <= i)
        l[i * n + j] = 2.0f * u[j * n + i];
}
