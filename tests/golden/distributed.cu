// loops computes
//     for i in [0, n)
//         b[i] = 2*a[i]
//         c[i] = b[i] + 1
//         d[i] = c[i] + b[i]
// Sizes: a: n, b: n, c: n, d: n
// Launch: loops, grid (1), block (1)
// Assumes: n >= 1; b, c, d overlap no other array
// Indices have 32 bits: n must not exceed 2147483647

extern "C" __global__ void loops(
    const float *a,
    float *__restrict__ b,
    float *__restrict__ c,
    float *__restrict__ d,
    int n)
{
    for (int i = 0; i < n; ++i)
        b[i] = 2.0f * a[i];  // first
    for (int i = 0; i < n; ++i) {
        c[i] = b[i] + 1.0f;  // second
        d[i] = c[i] + b[i];  // third
    }
}
