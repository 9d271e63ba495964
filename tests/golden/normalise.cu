extern "C" __global__ void __launch_bounds__(8) normalise(const float *__restrict__ a, float *__restrict__ b, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float acc = 0.0f;  // insn
    for (int k = 0; k < n; ++k)
        acc += a[bx * n + k];  // insn
    float s = acc;  // insn
    for (int j_outer = 0; j_outer < (n - tx + 7) / 8; ++j_outer)
        b[bx * n + 8 * j_outer + tx] = a[bx * n + 8 * j_outer + tx] - s;  // insn_1
}
