// reversed_tiles computes
//     for o in [0, n)
//         for i in [0, 32)
//             tile[i] = 0
//             tile[i] = C('tile[i] = x[32*o + 31 - i];')
//         for j in [0, 32)
//             y[32*o + j] = tile[j]
// Sizes: x: 32*n, y: 32*n
// Launch: reversed_tiles, grid (n), block (32)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: 32*n, 32*n + 32 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) reversed_tiles(
    const int *__restrict__ x,
    int *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ int tile[32];
    tile[tx] = 0;  // clear
    {  // fill
        const int o = bx;
        const int i = tx;
        tile[i] = x[32*o + 31 - i];
    }
    y[32 * bx + tx] = tile[tx];
}
