// every_third computes
//     for i in [1, n) by 3
//         y[i] = 2*a[i]
// Sizes: a: n, y: n
// Launch: every_third, grid (1), block (1)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n, n + 2 must not exceed 2147483647

extern "C" __global__ void every_third(const int *__restrict__ a, int *__restrict__ y, int n)
{
    for (int i = 1; i < n; i += 3)
        y[i] = 2u * a[i];
}
