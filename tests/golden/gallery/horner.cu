// horner computes
//     for i in [0, n)
//         p = 0.5*x[i] + 2
//         q = p*x[i] - 1
//         y[i] = q*x[i] + 3
// Sizes: x: n, y: n
// Launch: horner, grid ((n + 63) / 64), block (64)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n, n + 127 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) horner(
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (i < n) {
        float p = 0.5f * x[i] + 2.0f;
        float q = p * x[i] - 1.0f;
        y[i] = q * x[i] + 3.0f;
    }
}
