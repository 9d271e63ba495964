// mirror computes
//     for i in [0, n)
//         b[i] = a[i]
//     for i in [0, n)
//         c[i] = b[n - 1 - i] + 1
// Sizes: a: n, b: n, c: n
// Launch: mirror_0, grid ((n + 15) / 16), block (16)
// Launch: mirror_1, grid ((n + 15) / 16), block (16)
// Assumes: n >= 1; b, c overlap no other array
// Indices have 32 bits: n, n + 32 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) mirror_0(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n)
        b[i] = a[i];
}

extern "C" __global__ void __launch_bounds__(16) mirror_1(
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n)
        c[i] = b[n - i - 1] + 1.0f;
}
