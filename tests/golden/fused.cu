extern "C" __global__ void loops(const float *a, float *__restrict__ b, float *__restrict__ c, int n)
{
    for (int i = 0; i < n; ++i) {
        b[i] = 2.0f * a[i];  // first
        c[i] = b[i] + 1.0f;  // second
    }
}
