// two_ranges computes
//     for i in [0, n)
//         y[i] = a[i]
// Sizes: a: n, y: n
// Launch: two_ranges, grid (max((n + 21) / 24, (n + 7) / 8)), block (8)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n, 3*n + 47 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) two_ranges(
    const int *__restrict__ a,
    int *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    if (3 * i + 2 < n || (2 * n <= 3 * i + 2 && i < n))
        y[i] = a[i];
}
