// prefix_sums_by_triangle computes
//     for i in [0, n)
//         s[i] = sum(j, a[j]), j in [0, i + 1)
// Sizes: a: n, s: n
// Launch: prefix_sums_by_triangle, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; s overlaps no other array
// Indices have 32 bits: n, n + 32 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) prefix_sums_by_triangle(
    const int *__restrict__ a,
    int *__restrict__ s,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        int acc = 0;
        for (int j = 0; j <= i; ++j)
            acc += (unsigned int)a[j];
        s[i] = acc;
    }
}
