// scatter_by_permutation computes
//     for i in [0, n)
//         out[to[i]] = a[i]
// Sizes: a: n, out: n, to: n
// Launch: scatter_by_permutation, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; out overlaps no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) scatter_by_permutation(
    const float *__restrict__ a,
    float *__restrict__ out,
    const int *__restrict__ to,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n)
        out[to[i]] = a[i];
}
