extern "C" __global__ void __launch_bounds__(8) two_ranges(const int *__restrict__ a, int *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    if (3 * i + 2 < n || (2 * n <= 3 * i + 2 && i < n))
        y[i] = a[i];
}
