// pool_in_a_loop computes
//     for s in [0, n)
//         for i in [0, 8)
//             x[i] = a[s, i]
//         for j in [0, 8)
//             twice[j] = 2*x[7 - j]
//         for k in [0, 8)
//             y[k] = twice[k]
//         for l in [0, 8)
//             b[s, l] = y[l]
// Sizes: a: n x 8, b: n x 8
// Launch: pool_in_a_loop, grid (1), block (8)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: 8*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) pool_in_a_loop(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int tx = threadIdx.x;
    __shared__ union {
        float x[8];
        float y[8];
    } mem;
    for (int s = 0; s < n; ++s) {
        mem.x[tx] = a[s * 8 + tx];
        __syncwarp();  // x: reads follow writes; mem: others used the storage before
        float twice = 2.0f * mem.x[7 - tx];
        __syncwarp();  // x: writes follow reads; mem: others used the storage before
        mem.y[tx] = twice;
        b[s * 8 + tx] = mem.y[tx];
        __syncwarp();  // mem: others used the storage before
    }
}
