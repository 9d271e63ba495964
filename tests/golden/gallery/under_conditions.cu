extern "C" __global__ void __launch_bounds__(16) under_conditions(const float *__restrict__ a, const int *__restrict__ wanted, float *__restrict__ up, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (n >= 1 && 16 * bx + tx < m) {
        float acc = 0.0f;
        for (int j = 0; j < n; ++j)
            acc += a[(16 * bx + tx) * n + j] > 0.0f ? a[(16 * bx + tx) * n + j] : 0.0f;
        if (wanted[16 * bx + tx] == 1)
            up[16 * bx + tx] = acc;
    }
}
