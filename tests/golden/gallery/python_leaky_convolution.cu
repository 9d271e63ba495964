extern "C" __global__ void __launch_bounds__(64) python_leaky_convolution(const float *__restrict__ u, const float *__restrict__ w, float *__restrict__ v, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (i < n) {
        float acc = 0.0f;  // insn
        for (int k = 0; k < 3; ++k)
            acc += w[k] * u[i + k];  // insn
        float total = acc;  // insn
        if (total > 1.0f) {
            v[i] = total;  // insn_1
        } else {
            v[i] = 0.125f * total;  // insn_2
        }
    }
}
