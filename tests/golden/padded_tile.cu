// transpose computes
//     for i in [0, n), j in [0, n)
//         b[j, i] = a[i, j]
// Sizes: a: n x n, b: n x n
// Launch: transpose, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n*n, n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) transpose(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + tx, j = 8 * bx + ty;
    __shared__ float a_fetch[8][9];
    if (8 * by + ty < n && 8 * bx + tx < n)
        a_fetch[ty][tx] = a[(8 * by + ty) * n + 8 * bx + tx];
    __syncthreads();  // a_fetch: reads follow writes
    if (j < n && i < n)
        b[j * n + i] = a_fetch[tx][ty];
}
