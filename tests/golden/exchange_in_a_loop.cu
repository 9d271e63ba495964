// steps computes
//     for b in [0, n)
//         for x0 in [0, 32)
//             t[x0] = a[b, x0]
//         for k in [0, m)
//             for x in [0, 32)
//                 u[x] = t[(x + 1) % 32] + k
//             for y in [0, 32)
//                 t[y] = u[31 - y]
//         for z in [0, 32)
//             o[b, z] = t[z]
// Sizes: a: n x 32, o: n x 32
// Launch: steps, grid (n), block (32)
// Assumes: n >= 0; o overlaps no other array
// Indices have 32 bits: 32*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) steps(
    const float *__restrict__ a,
    float *__restrict__ o,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float t = a[bx * 32 + tx];
    for (int k = 0; k < m; ++k) {
        float u = __shfl_sync(0xffffffffu, t, (tx + 1) % 32) + k;
        t = __shfl_sync(0xffffffffu, u, 31 - tx);
    }
    o[bx * 32 + tx] = t;
}
