// rule computes
//     for i in [0, n - 2)
//         out[i] = f(i) + f(i + 2)
// Sizes: a: n, out: (n - 2)
// Launch: rule, grid (n / 16), block (16)
// Assumes: (n + 14) % 16 == 0; n >= 3; out overlaps no other array
// Indices have 32 bits: n, n - 2, n + 16 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) rule(
    const float *__restrict__ a,
    float *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    out[i] = 2.0f * a[i] + 1.0f + (2.0f * a[i + 2] + 1.0f);
}
