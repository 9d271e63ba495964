extern "C" __global__ void __launch_bounds__(32) phases_with_options_0(const int *__restrict__ a, int *__restrict__ low, int *__restrict__ high, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        if (a[i] > 0) {
            low[i] = a[i];  // fill
            high[i] = 0;  // fill_1
        } else {
            low[i] = 0;  // fill_2
            high[i] = -(unsigned int)a[i];  // fill_3
        }
    }
}

extern "C" __global__ void __launch_bounds__(32) phases_with_options_1(const int *__restrict__ low, const int *__restrict__ high, int *__restrict__ both, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n)
        both[i] = (unsigned int)low[n - i - 1] + high[n - i - 1];
}
