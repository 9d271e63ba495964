// fields_to_rows_within_a_warp computes
//     for g in [0, n)
//         for w in [0, 8), lane in [0, 32)
//             t[w, lane] = a[g, w, lane]
//         for w in [0, 8), lane in [0, 32)
//             b[g, w, lane] = t[w, 4*(lane % 8) + lane // 8]
// Sizes: a: n x 8 x 32, b: n x 8 x 32
// Launch: fields_to_rows_within_a_warp, grid (n), block (32, 8)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: 256*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) fields_to_rows_within_a_warp(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float t[8][32];
    t[ty][tx] = a[bx * 256 + ty * 32 + tx];  // load
    __syncwarp();  // t: reads follow writes
    b[bx * 256 + ty * 32 + tx] = t[ty][4 * (tx % 8) + tx / 8];  // store
}
