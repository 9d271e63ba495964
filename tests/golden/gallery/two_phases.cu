extern "C" __global__ void __launch_bounds__(16) two_phases_0(const float *__restrict__ a, int n, float *__restrict__ total)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (16 * bx + tx < n) {
        float acc = 0.0f;
        for (int i = 0; i < n; ++i)
            acc += a[i * n + 16 * bx + tx];
        total[16 * bx + tx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(16) two_phases_1(const float *__restrict__ a, int n, const float *__restrict__ total, float *__restrict__ t)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    if (16 * bx + tx < n)
        t[by * n + 16 * bx + tx] = a[by * n + 16 * bx + tx] / total[16 * bx + tx];
}

extern "C" __global__ void __launch_bounds__(16) two_phases_2(float *__restrict__ b, int n, const float *__restrict__ t)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    if (16 * bx + tx < n)
        b[by * n + 16 * bx + tx] = t[(16 * bx + tx) * n + by];
}
