// phases_with_options computes
//     for i in [0, n)
//         low[i] = a[i] if a[i] > 0
//         high[i] = 0 if a[i] > 0
//         low[i] = 0 if not a[i] > 0
//         high[i] = -a[i] if not a[i] > 0
//     for k in [0, n)
//         both[k] = low[n - 1 - k] + high[n - 1 - k]
// Sizes: a: n, low: n, high: n, both: n
// Launch: phases_with_options_0, grid ((n + 31) / 32), block (32)
// Launch: phases_with_options_1, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; low, high, both overlap no other array
// Indices have 32 bits: n, n + 64 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) phases_with_options_0(
    const int *__restrict__ a,
    int *__restrict__ low,
    int *__restrict__ high,
    int n)
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

extern "C" __global__ void __launch_bounds__(32) phases_with_options_1(
    const int *__restrict__ low,
    const int *__restrict__ high,
    int *__restrict__ both,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n)
        both[i] = (unsigned int)low[n - i - 1] + high[n - i - 1];
}
