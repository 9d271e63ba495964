extern "C" __global__ void __launch_bounds__(256) separable_blur_by_function_0(const float *__restrict__ a, float *__restrict__ rows, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = 16 * by + ty, blur_j = 16 * bx + tx;
    if (r <= n + 1 && blur_j < n)
        rows[r * n + blur_j] = a[r * (n + 2) + blur_j] + 2.0f * a[r * (n + 2) + blur_j + 1] + a[r * (n + 2) + blur_j + 2];
}

extern "C" __global__ void __launch_bounds__(256) separable_blur_by_function_1(const float *__restrict__ rows, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = 16 * by + ty, blur_j = 16 * bx + tx;
    if (r < n && blur_j < n)
        b[r * n + blur_j] = rows[r * n + blur_j] + 2.0f * rows[(r + 1) * n + blur_j] + rows[(r + 2) * n + blur_j];
}
