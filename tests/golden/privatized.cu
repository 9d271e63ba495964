// rotation computes
//     for g in [0, n), i in [0, 8)
//         t = 2*a[g, i]
//         b[g, i] = t + 1
//         c[g, i] = t - 1
// Sizes: a: n x 8, b: n x 8, c: n x 8
// Launch: rotation, grid (n), block (8)
// Assumes: n >= 0; b, c overlap no other array
// Indices have 32 bits: 8*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) rotation(
    const float *__restrict__ a,
    float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float t[8];
    t[tx] = 2.0f * a[bx * 8 + tx];  // set
    b[bx * 8 + tx] = t[tx] + 1.0f;  // one
    c[bx * 8 + tx] = t[tx] - 1.0f;  // two
}
