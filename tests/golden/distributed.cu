extern "C" __global__ void loops(const float *a, float *__restrict__ b, float *__restrict__ c, float *__restrict__ d, int n)
{
    for (int i = 0; i < n; ++i)
        b[i] = 2.0f * a[i];  // first
    for (int i = 0; i < n; ++i) {
        c[i] = b[i] + 1.0f;  // second
        d[i] = c[i] + b[i];  // third
    }
}
