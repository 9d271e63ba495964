extern "C" __global__ void __launch_bounds__(20) triangular_solve(const float *l, const float *b, float *__restrict__ x, int n)
{
    const int tx = threadIdx.x;
    for (int i = 0; i < n; ++i) {
        float acc = 0.0f;
        for (int j = 0; j < i; ++j)
            acc += l[i * n + j] * x[j * 20 + tx];
        x[i * 20 + tx] = (b[i * 20 + tx] - acc) / l[i * n + i];
    }
}
