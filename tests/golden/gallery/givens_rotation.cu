// givens_rotation computes
//     for i in [0, n)
//         y_new = s*x[i] + c*y[i]
//         x[i] = c*x[i] - s*y[i]
//         y[i] = y_new
// Sizes: x: n, y: n
// Launch: givens_rotation, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; x, y overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) givens_rotation(
    float *__restrict__ x,
    float *__restrict__ y,
    float c,
    float s,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float y_new = s * x[i] + c * y[i];
        x[i] = c * x[i] - s * y[i];
        y[i] = y_new;
    }
}
