// chained_comparisons computes
//     for i in [0, n)
//         y[i] = -1
//         y[i] = x[i] if 0 < x[i] and x[i] <= 3
//         hits[i] = if(0 <= x[i] and x[i] < 5 and 5 <= x[i] + 3, 1, 0)
// Sizes: x: n, y: n, hits: n
// Launch: chained_comparisons, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; y, hits overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) chained_comparisons(
    const int *__restrict__ x,
    int *__restrict__ y,
    int *__restrict__ hits,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        y[i] = -1;
        if (0 < x[i] && x[i] <= 3)
            y[i] = x[i];
        hits[i] = 0 <= x[i] && x[i] < 5 && 5 <= (int)(x[i] + 3u) ? 1 : 0;
    }
}
