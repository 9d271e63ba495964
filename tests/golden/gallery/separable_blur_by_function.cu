extern "C" __global__ void __launch_bounds__(256) separable_blur_by_function_0(const float *__restrict__ a, float *__restrict__ rows, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (16 * by + ty <= n + 1 && 16 * bx + tx < n)
        rows[(16 * by + ty) * n + 16 * bx + tx] = a[(16 * by + ty) * (n + 2) + 16 * bx + tx] + 2.0f * a[(16 * by + ty) * (n + 2) + 16 * bx + tx + 1] + a[(16 * by + ty) * (n + 2) + 16 * bx + tx + 2];
}

extern "C" __global__ void __launch_bounds__(256) separable_blur_by_function_1(const float *__restrict__ rows, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (16 * by + ty < n && 16 * bx + tx < n)
        b[(16 * by + ty) * n + 16 * bx + tx] = rows[(16 * by + ty) * n + 16 * bx + tx] + 2.0f * rows[(16 * by + ty + 1) * n + 16 * bx + tx] + rows[(16 * by + ty + 2) * n + 16 * bx + tx];
}
