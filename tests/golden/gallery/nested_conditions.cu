// nested_conditions computes
//     for i in [0, n), j = i
//         out[i, j] = 1 if a[i, j] > 0
//         out[i, j] = 2 if not a[i, j] > 0
//         out[i, j] = 3 if a[i, j] < 0
//         out[i, j] = 4 if not a[i, j] < 0
//         out[i, j] = 5
// Sizes: a: n x n, out: n x n
// Launch: nested_conditions, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8)
// Assumes: n >= 0; out overlaps no other array
// Indices have 32 bits: n*n, n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) nested_conditions(
    const int *__restrict__ a,
    int *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    if (by == bx && ty == tx && j < n) {
        if (a[i * n + j] > 0) {
            out[i * n + j] = 1;
        } else {
            out[i * n + j] = 2;
        }
    }
    if (j < n && i < j) {
        if (a[i * n + j] < 0) {
            out[i * n + j] = 3;
        } else {
            out[i * n + j] = 4;
        }
    }
    if (i < n && j < i)
        out[i * n + j] = 5;
}
