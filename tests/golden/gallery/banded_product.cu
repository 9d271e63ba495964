// banded_product computes
//     for i in [0, n)
//         y[i] = sum(j, band[i, j - i + 2]*x[j]), j in [max(0, i - 2), min(n, i + 3))
// Sizes: band: n x 5, x: n, y: n
// Launch: banded_product, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: 5*n, n, 6*n + 30, n + 34 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) banded_product(
    const float *__restrict__ band,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float acc = 0.0f;
        for (int j = max(0, i - 2); j < min(n, i + 3); ++j)
            acc += band[i * 5 + j - i + 2] * x[j];
        y[i] = acc;
    }
}
