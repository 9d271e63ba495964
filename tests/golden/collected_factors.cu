extern "C" __global__ void __launch_bounds__(4) increments(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ y, const float *__restrict__ w, float s, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 4 * bx + tx;
    if (i < n) {
        float t = 0.0f;  // insn
        for (int k = 0; k < 4; ++k)
            t += a[i * 4 + k] / 2.0f;  // first
        float acc = 0.0f;  // second
        for (int k = 0; k < 4; ++k)
            acc += 3.0f * a[i * 4 + k];  // second
        t += acc;  // second
        t -= b[i] + a[i * 4];  // third
        y[i] = s * w[0] * t + expf(s * w[0] * t * b[i]);  // insn_1
    }
}
