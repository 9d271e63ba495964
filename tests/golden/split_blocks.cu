// blur computes
//     for i in [1, n - 1)
//         out[i] = a[i - 1] + a[i] + a[i + 1]
// Sizes: a: n, out: n
// Launch: blur, grid ((n + 14) / 16), block (16)
// Assumes: n >= 3; out overlaps no other array
// Indices have 32 bits: n, n + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) blur(
    const float *__restrict__ a,
    float *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i >= 1 && i + 1 < n)
        out[i] = a[i - 1] + a[i] + a[i + 1];
}
