extern "C" __global__ void __launch_bounds__(16) zero_padded_convolution(const float *__restrict__ a, float *__restrict__ b, const float *__restrict__ w, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (16 * bx + tx < n) {
        float acc = 0.0f;
        for (int k = 0; k < 3; ++k)
            acc += 16 * bx + k + tx >= 1 && 16 * bx + k + tx <= n ? w[k] * a[16 * bx + k + tx - 1] : 0.0f;
        b[16 * bx + tx] = acc;
    }
}
