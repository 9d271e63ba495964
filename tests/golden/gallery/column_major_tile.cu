// column_major_tile computes
//     for g in [0, n)
//         for i in [0, 7), j in [0, 5)
//             t[i, j] = a[g, i, j]
//         for ii in [0, 7), jj in [0, 5)
//             b[g, jj, ii] = t[ii, jj]
// Sizes: a: n x 7 x 5, b: n x 5 x 7
// Launch: column_major_tile, grid (n), block (7, 7)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: 35*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(49) column_major_tile(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float t[5][8];
    if (tx < 5)
        t[tx][ty] = a[bx * 35 + ty * 5 + tx];
    __syncthreads();  // t: reads follow writes
    if (ty < 5)
        b[bx * 35 + ty * 7 + tx] = t[ty][tx];
}
