extern "C" __global__ void __launch_bounds__(8) normalise(const float *__restrict__ a, float *__restrict__ b, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float acc = 0.0f;  // insn
    for (int k = 0; k < n; ++k)
        acc += a[bx * n + k];  // insn
    float s = acc;  // insn
    for (int j_outer = 0; j_outer < (n - tx + 7) / 8; ++j_outer) {
        const int j = 8 * j_outer + tx;
        b[bx * n + j] = a[bx * n + j] - s;  // insn_1
    }
}
