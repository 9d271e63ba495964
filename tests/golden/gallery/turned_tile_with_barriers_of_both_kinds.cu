// turned_tile_with_barriers_of_both_kinds computes
//     for g in [0, n)
//         for w in [0, 4), lane in [0, 32)
//             rows[w, lane] = a[g, w, lane]
//         for w in [0, 4), lane in [0, 32)
//             turned[w, lane] = rows[3 - w, lane]
//         for w in [0, 4), lane in [0, 32)
//             b[g, w, lane] = turned[w, (32 - lane) % 32]
// Sizes: a: n x 4 x 32, b: n x 4 x 32
// Launch: turned_tile_with_barriers_of_both_kinds, grid (n), block (32, 4)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: 128*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) turned_tile_with_barriers_of_both_kinds(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float rows[4][32];
    __shared__ float turned[4][32];
    rows[ty][tx] = a[bx * 128 + ty * 32 + tx];
    __syncthreads();  // rows: reads follow writes
    turned[ty][tx] = rows[3 - ty][tx];
    __syncwarp();  // turned: reads follow writes
    b[bx * 128 + ty * 32 + tx] = turned[ty][(32 - tx) % 32];
}
