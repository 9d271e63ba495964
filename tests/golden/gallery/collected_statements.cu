extern "C" __global__ void collected_statements(const float *x, float *__restrict__ y0, float *__restrict__ y1, float *__restrict__ y2, float *__restrict__ total, int n)
{
    for (int i = 0; i < n; ++i) {
        y0[i] = x[i] + 0.0f;  // power0
        y1[i] = x[i] + 1.0f;  // power1
        y2[i] = x[i] + 4.0f;  // power2
        total[i] = y0[i] + y1[i] + y2[i];  // insn
    }
}
