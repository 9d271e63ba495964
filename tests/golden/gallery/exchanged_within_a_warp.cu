// exchanged_within_a_warp computes
//     for b in [0, n)
//         for lane in [0, 32)
//             t[lane] = a[b, lane]
//         for x in [0, 32)
//             o[b, x] = t[31 - x] + t[(x + 1) % 32] + t[5]
// Sizes: a: n x 32, o: n x 32
// Launch: exchanged_within_a_warp, grid (n), block (32)
// Assumes: n >= 0; o overlaps no other array
// Indices have 32 bits: 32*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) exchanged_within_a_warp(
    const float *__restrict__ a,
    float *__restrict__ o,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float t = a[bx * 32 + tx];  // load
    o[bx * 32 + tx] = __shfl_sync(0xffffffffu, t, 31 - tx)
        + __shfl_sync(0xffffffffu, t, (tx + 1) % 32)
        + __shfl_sync(0xffffffffu, t, 5);
}
