// two_tiles computes
//     for g in [0, n)
//         for i in [0, 16)
//             b[g, i] = a[g, 15 - i]
//         for j in [0, 16)
//             d[g, j] = c[g, 15 - j] + b[g, j]
// Sizes: a: n x 16, b: n x 16, c: n x 16, d: n x 16
// Launch: two_tiles, grid (n), block (16)
// Assumes: n >= 0; b, d overlap no other array
// Indices have 32 bits: 16*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) two_tiles(
    const float *a,
    float *__restrict__ b,
    const float *c,
    float *__restrict__ d,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ union {
        float a_fetch[16];
        float c_fetch[16];
    } tile;
    const int offset = bx * 16 + tx;
    tile.a_fetch[tx] = a[offset];
    __syncwarp();  // a_fetch: reads follow writes; tile: others used the storage before
    b[offset] = tile.a_fetch[15 - tx];  // first
    __syncwarp();  // tile: others used the storage before
    tile.c_fetch[tx] = c[offset];
    __syncwarp();  // c_fetch: reads follow writes
    d[offset] = tile.c_fetch[15 - tx] + b[offset];  // second
}
