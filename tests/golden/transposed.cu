// transposed computes
//     for io in [0, n), jo in [0, n)
//         for ii in [0, 16), jj in [0, 16)
//             t[ii, jj] = a[16*io + ii, 16*jo + jj]
//         for ii in [0, 16), jj in [0, 16)
//             b[16*jo + ii, 16*io + jj] = t[jj, ii]
// Sizes: a: 16*n x 16*n, b: 16*n x 16*n
// Launch: transposed, grid (n, n), block (16, 16)
// Assumes: n >= 1; b overlaps no other array
// Indices have 32 bits: 256*n*n, 16*n + 16 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) transposed(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float t[16][16];
    t[ty][tx] = a[(16 * by + ty) * 16 * n + 16 * bx + tx];  // store
    __syncthreads();  // t: reads follow writes
    b[(16 * bx + ty) * 16 * n + 16 * by + tx] = t[tx][ty];  // load
}
