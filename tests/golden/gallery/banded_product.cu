extern "C" __global__ void __launch_bounds__(16) banded_product(const float *__restrict__ band, const float *__restrict__ x, float *__restrict__ y, int n)
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
