extern "C" __global__ void __launch_bounds__(32) row_sums(const float *__restrict__ a, float *__restrict__ s, int n, int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float acc = 0.0f;
        for (int j = 0; j < m; ++j)
            acc += a[i * m + j];
        s[i] = acc;
    }
}
