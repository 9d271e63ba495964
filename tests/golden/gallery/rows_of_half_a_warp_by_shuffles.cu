// rows_by_shuffles computes
//     for g in [0, n)
//         for y in [0, 3), x in [0, 16)
//             t[y, x] = a[g, y, x]
//         for y in [0, 3), x in [0, 16)
//             b[g, y, x] = t[y, 15 - x] + t[y, x]
// Sizes: a: n x 3 x 16, b: n x 3 x 16
// Launch: rows_by_shuffles, grid (n), block (16, 3)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: 48*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(48) rows_by_shuffles(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    float t = a[bx * 48 + ty * 16 + tx];
    b[bx * 48 + ty * 16 + tx] = __shfl_sync(0xffffu << 16 * (ty % 2), t, 15 - tx, 16) + t;
}
