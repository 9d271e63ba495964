// loops computes
//     for i in [0, n)
//         b[i] = 2*a[i]
//     for j in [0, n)
//         c[j] = b[j] + 1
// Sizes: a: n, b: n, c: n
// Launch: loops, grid (1), block (1)
// Assumes: n >= 1; b, c overlap no other array
// Indices have 32 bits: n must not exceed 2147483647

extern "C" __global__ void loops(
    const float *a,
    float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    for (int i = 0; i < n; ++i) {
        b[i] = 2.0f * a[i];  // first
        c[i] = b[i] + 1.0f;  // second
    }
}
