// unit_triangle_by_conditions computes
//     for i in [0, n)
//         y[i] = sum(j, if(j < i, a[i, j]*x[j], if(j == i, x[i], 0))), j in [0, n)
// Sizes: a: n x n, x: n, y: n
// Launch: unit_triangle_by_conditions, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n*n, n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) unit_triangle_by_conditions(
    const int *__restrict__ a,
    const int *__restrict__ x,
    int *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        int acc = 0;
        for (int j = 0; j < n; ++j)
            acc += (unsigned int)(
                j < i ? (int)((unsigned int)a[i * n + j] * x[j]) : j == i ? x[i] : 0);
        y[i] = acc;
    }
}
