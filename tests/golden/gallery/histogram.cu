extern "C" __global__ void __launch_bounds__(37) histogram_0(int *__restrict__ count, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    count[64 * bx + tx] = 0;
}

extern "C" __global__ void __launch_bounds__(64) histogram_1(const int *__restrict__ bin, int *__restrict__ count, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int b = 64 * bx + tx;
    if (b < n)
        atomicAdd(&count[bin[b]], 1);
}
