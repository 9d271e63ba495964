extern "C" __global__ void __launch_bounds__(16) mirror_0(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (16 * bx + tx < n)
        b[16 * bx + tx] = a[16 * bx + tx];
}

extern "C" __global__ void __launch_bounds__(16) mirror_1(const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (16 * bx + tx < n)
        c[16 * bx + tx] = b[n - 16 * bx - tx - 1] + 1.0f;
}
