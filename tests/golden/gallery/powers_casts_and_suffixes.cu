// powers_casts_and_suffixes computes
//     for i in [0, n)
//         y[i] = x[i]**3 - 2*x[i]**2 + 1.0f*x[i]**(-2) + x[i]**0.5
//         whole[i] = cast(int32, 10*x[i])
// Sizes: x: n, y: n, whole: n
// Launch: powers_casts_and_suffixes, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; y, whole overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) powers_casts_and_suffixes(
    const float *__restrict__ x,
    float *__restrict__ y,
    int *__restrict__ whole,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        y[i] = x[i] * x[i] * x[i]
            - 2.0f * (x[i] * x[i])
            + 1.0f * (1.0f / (x[i] * x[i]))
            + powf(x[i], 0.5f);
        whole[i] = (int)(10.0f * x[i]);
    }
}
