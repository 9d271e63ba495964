extern "C" __global__ void __launch_bounds__(64) histogram_0(int *__restrict__ count, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (n >= 1 && 64 * bx + tx < 37)
        count[64 * bx + tx] = 0;
}

extern "C" __global__ void __launch_bounds__(64) histogram_1(const int *__restrict__ bin, int *__restrict__ count, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + tx < n)
        atomicAdd(&count[bin[64 * bx + tx]], 1);
}
