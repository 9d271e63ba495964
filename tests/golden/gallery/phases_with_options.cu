extern "C" __global__ void __launch_bounds__(32) phases_with_options_0(const int *__restrict__ a, int *__restrict__ low, int *__restrict__ high, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        if (a[32 * bx + tx] > 0) {
            low[32 * bx + tx] = a[32 * bx + tx];  // fill
            high[32 * bx + tx] = 0;  // fill_1
        } else {
            low[32 * bx + tx] = 0;  // fill_2
            high[32 * bx + tx] = -a[32 * bx + tx];  // fill_3
        }
    }
}

extern "C" __global__ void __launch_bounds__(32) phases_with_options_1(const int *__restrict__ low, const int *__restrict__ high, int *__restrict__ both, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n)
        both[32 * bx + tx] = low[n - 32 * bx - tx - 1] + high[n - 32 * bx - tx - 1];
}
