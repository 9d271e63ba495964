// increments computes
//     for i in [0, n)
//         t = 0
//         for k in [0, 4)
//             t = t + a[i, k]/2
//         t = t + sum(k, 3*a[i, k]), k in [0, 4)
//         t = t - (b[i] + a[i, 0])
//         y[i] = s*w[0]*t + exp(s*w[0]*t*b[i])
// Sizes: a: n x 4, b: n, y: n, w: 1
// Launch: increments, grid ((n + 3) / 4), block (4)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: 4*n, n, n + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(4) increments(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ y,
    const float *__restrict__ w,
    float s,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 4 * bx + tx;
    if (i < n) {
        float t = 0.0f;
        for (int k = 0; k < 4; ++k)
            t += a[i * 4 + k] / 2.0f;  // first
        float acc = 0.0f;  // second
        for (int k = 0; k < 4; ++k)
            acc += 3.0f * a[i * 4 + k];  // second
        t += acc;  // second
        t -= b[i] + a[i * 4];  // third
        y[i] = s * w[0] * t + expf(s * w[0] * t * b[i]);
    }
}
