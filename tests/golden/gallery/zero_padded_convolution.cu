// zero_padded_convolution computes
//     for i in [0, n)
//         b[i] = sum(k, if(i + k >= 1 and i + k <= n, w[k]*a[i + k - 1], 0)), k in [0, 3)
// Sizes: a: n, b: n, w: 3
// Launch: zero_padded_convolution, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, n + 34 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) zero_padded_convolution(
    const float *__restrict__ a,
    float *__restrict__ b,
    const float *__restrict__ w,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float acc = 0.0f;
        for (int k = 0; k < 3; ++k)
            acc += i + k >= 1 && i + k <= n ? w[k] * a[i + k - 1] : 0.0f;
        b[i] = acc;
    }
}
