// running_sum_of_each_row computes
//     for i in [0, n)
//         total = 0
//         for j in [0, n)
//             total = total + a[i, j]
//             s[i, j] = total
// Sizes: a: n x n, s: n x n
// Launch: running_sum_of_each_row, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; s overlaps no other array
// Indices have 32 bits: n*n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) running_sum_of_each_row(
    const int *__restrict__ a,
    int *__restrict__ s,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        int total = 0;  // start
        for (int j = 0; j < n; ++j) {
            total += (unsigned int)a[i * n + j];  // add
            s[i * n + j] = total;
        }
    }
}
