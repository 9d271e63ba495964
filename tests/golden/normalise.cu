// normalise computes
//     for i in [0, m)
//         s = sum(k, a[i, k]), k in [0, n)
//         for j in [0, n)
//             b[i, j] = a[i, j] - s
// Sizes: a: m x n, b: m x n
// Launch: normalise, grid (m), block (8)
// Assumes: m >= 1; n >= 1; b overlaps no other array
// Indices have 32 bits: m*n, n + 24 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) normalise(
    const float *__restrict__ a,
    float *__restrict__ b,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float acc = 0.0f;
    for (int k = 0; k < n; ++k)
        acc += a[bx * n + k];
    float s = acc;
    for (int j = tx; j < n; j += 8)
        b[bx * n + j] = a[bx * n + j] - s;
}
