// triangle_of_triangles computes
//     for i in [0, n)
//         t[i] = sum((j, k), a[j, k]), j in [0, i + 1), k in [0, j + 1)
// Sizes: a: n x n, t: n
// Launch: triangle_of_triangles, grid ((n + 7) / 8), block (8)
// Assumes: n >= 0; t overlaps no other array
// Indices have 32 bits: n*n, n, n + 17 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) triangle_of_triangles(
    const int *__restrict__ a,
    int *__restrict__ t,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    if (i < n) {
        int acc = 0;
        for (int j = 0; j <= i; ++j) {
            for (int k = 0; k <= j; ++k)
                acc += (unsigned int)a[j * n + k];
        }
        t[i] = acc;
    }
}
