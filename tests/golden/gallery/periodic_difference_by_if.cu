// periodic_difference_by_if computes
//     for i in [0, n)
//         d[i] = if(i + 1 < n, a[i + 1], a[0]) - if(not i < 1, a[i - 1], a[n - 1])
// Sizes: a: n, d: n
// Launch: periodic_difference_by_if, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; d overlaps no other array
// Indices have 32 bits: n, n + 32 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) periodic_difference_by_if(
    const float *__restrict__ a,
    float *__restrict__ d,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n)
        d[i] = (i + 1 < n ? a[i + 1] : a[0]) - (!(i < 1) ? a[i - 1] : a[n - 1]);
}
