// two_transposes_in_one_tile computes
//     for i in [0, n), j in [0, n)
//         at[j, i] = a[i, j]
//     for k in [0, n), l in [0, n)
//         bt[l, k] = b[k, l]
// Sizes: a: n x n, at: n x n, b: n x n, bt: n x n
// Launch: two_transposes_in_one_tile, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8)
// Assumes: n >= 0; at, bt overlap no other array
// Indices have 32 bits: n*n, n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) two_transposes_in_one_tile(
    const float *__restrict__ a,
    float *__restrict__ at,
    const double *__restrict__ b,
    double *__restrict__ bt,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + tx, j = 8 * bx + ty;
    __shared__ union {
        float a_fetch[8][8];
        double b_fetch[8][8];
    } tile;
    if (8 * by + ty < n && 8 * bx + tx < n)
        tile.a_fetch[ty][tx] = a[(8 * by + ty) * n + 8 * bx + tx];
    __syncthreads();  // a_fetch: reads follow writes; tile: others used the storage before
    if (j < n && i < n)
        at[j * n + i] = tile.a_fetch[tx][ty];
    __syncthreads();  // tile: others used the storage before
    if (8 * by + ty < n && 8 * bx + tx < n)
        tile.b_fetch[ty][tx] = b[(8 * by + ty) * n + 8 * bx + tx];
    __syncthreads();  // b_fetch: reads follow writes
    if (j < n && i < n)
        bt[j * n + i] = tile.b_fetch[tx][ty];
}
