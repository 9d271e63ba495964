// odd_even_sort_of_rows computes
//     for row in [0, n), step in [0, 8), j in [0, 7) with j % 2 == step % 2
//         holds = a[row, j] > a[row, j + 1]
//         a_new = if(holds, a[row, j], 0)
//         a[row, j] = a[row, j + 1] if holds
//         a[row, j + 1] = a_new if holds
// Sizes: a: n x 8
// Launch: odd_even_sort_of_rows, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0
// Indices have 32 bits: 8*n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) odd_even_sort_of_rows(int *__restrict__ a, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int row = 32 * bx + tx;
    if (row < n) {
        for (int step = 0; step < 8; ++step) {
            for (int j = 1 - ((step + 1) % 2); j < 7; j += 2) {
                bool holds = a[row * 8 + j] > a[row * 8 + j + 1];
                int a_new = holds ? a[row * 8 + j] : 0;
                if (holds) {
                    a[row * 8 + j] = a[row * 8 + j + 1];
                    a[row * 8 + j + 1] = a_new;
                }
            }
        }
    }
}
