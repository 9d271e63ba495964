__constant__ float blur_w[3][3] = {
    {0.0625f, 0.125f, 0.0625f},
    {0.125f, 0.25f, 0.125f},
    {0.0625f, 0.125f, 0.0625f},
};

extern "C" __global__ void __launch_bounds__(16) blur(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < n) {
        float acc = 0.0f;
        for (int p = 0; p < 3; ++p) {
            for (int q = 0; q < 3; ++q)
                acc += blur_w[p][q] * a[(by + p) * (n + 2) + j + q];
        }
        b[by * n + j] = acc;
    }
}
