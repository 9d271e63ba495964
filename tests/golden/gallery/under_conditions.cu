extern "C" __global__ void __launch_bounds__(16) under_conditions(const float *__restrict__ a, const int *__restrict__ wanted, float *__restrict__ up, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        float acc = 0.0f;
        for (int j = 0; j < n; ++j)
            acc += a[i * n + j] > 0.0f ? a[i * n + j] : 0.0f;
        if (wanted[i] == 1)
            up[i] = acc;
    }
}
