extern "C" __global__ void prefix_sum(const float *__restrict__ a, float *__restrict__ b, int n)
{
    float acc = 0.0f;
    for (int i = 0; i < n; ++i) {
        acc += a[i];
        b[i] = acc;
    }
}
