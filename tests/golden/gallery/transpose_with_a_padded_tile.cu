// transpose_with_a_padded_tile computes
//     for i in [0, n), j in [0, n)
//         at[j, i] = a[i, j]
// Sizes: a: n x n, at: n x n
// Launch: transpose_with_a_padded_tile, grid ((n + 15) / 16, (n + 15) / 16), block (16, 16)
// Assumes: n >= 0; at overlaps no other array
// Indices have 32 bits: n*n, n + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) transpose_with_a_padded_tile(
    const float *__restrict__ a,
    float *__restrict__ at,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 16 * by + tx, j = 16 * bx + ty;
    __shared__ float a_fetch[16][17];
    if (16 * by + ty < n && 16 * bx + tx < n)
        a_fetch[ty][tx] = a[(16 * by + ty) * n + 16 * bx + tx];
    __syncthreads();  // a_fetch: reads follow writes
    if (j < n && i < n)
        at[j * n + i] = a_fetch[tx][ty];
}
