extern "C" __global__ void __launch_bounds__(8) two_ranges(const int *__restrict__ a, int *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (24 * bx + 3 * tx + 2 < n || (2 * n <= 24 * bx + 3 * tx + 2 && 8 * bx + tx < n))
        y[8 * bx + tx] = a[8 * bx + tx];
}
