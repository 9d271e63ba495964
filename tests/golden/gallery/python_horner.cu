// python_horner computes
//     for i in [0, n)
//         value = 0
//         for k in [0, 3)
//             value = value*x[i] + c[3 - 1 - k]
//         y[i] = value
// Sizes: c: 3, x: n, y: n
// Launch: python_horner, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) python_horner(
    const float *__restrict__ c,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float value = 0.0f;
        for (int k = 0; k < 3; ++k)
            value = value * x[i] + c[2 - k];
        y[i] = value;
    }
}
