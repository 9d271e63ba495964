// python_leaky_convolution computes
//     for i in [0, n)
//         total = sum(k, w[k]*u[i + k]), k in [0, 3)
//         v[i] = total if total > 1
//         v[i] = 0.125*total if not total > 1
// Sizes: u: (n + 2), w: 3, v: n
// Launch: python_leaky_convolution, grid ((n + 63) / 64), block (64)
// Assumes: n >= 0; v overlaps no other array
// Indices have 32 bits: n + 2, n, n + 127 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) python_leaky_convolution(
    const float *__restrict__ u,
    const float *__restrict__ w,
    float *__restrict__ v,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (i < n) {
        float acc = 0.0f;
        for (int k = 0; k < 3; ++k)
            acc += w[k] * u[i + k];
        float total = acc;
        if (total > 1.0f) {
            v[i] = total;
        } else {
            v[i] = 0.125f * total;
        }
    }
}
