extern "C" __global__ void __launch_bounds__(16) banded_product(const float *__restrict__ band, const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (16 * bx + tx < n) {
        float acc = 0.0f;
        for (int j = max(0, 16 * bx + tx - 2); j < min(n, 16 * bx + tx + 3); ++j)
            acc += band[(16 * bx + tx) * 5 + j - 16 * bx - tx + 2] * x[j];
        y[16 * bx + tx] = acc;
    }
}
