extern "C" __global__ void __launch_bounds__(16) weights(const float *q, float *__restrict__ total, float *__restrict__ mean, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float acc = -__int_as_float(0x7f800000);  // insn
        for (int l = 0; l < 6; ++l)
            acc = fmaxf(acc, q[i * 6 + l]);  // insn
        float top = acc;  // insn
        float acc_0 = 0.0f;  // insn_2
        float acc_1 = 0.0f;  // insn_3
        for (int k = 0; k < 6; ++k) {
            float weight = expf(q[i * 6 + k] - top);  // insn_1
            acc_0 += weight;  // insn_2
            acc_1 += weight * q[i * 6 + k];  // insn_3
        }
        total[i] = acc_0;  // insn_2
        mean[i] = acc_1 / total[i];  // insn_3
    }
}
