extern "C" __global__ void defects(const float *__restrict__ m, const float *__restrict__ x, const float *__restrict__ f, float *__restrict__ r, float *__restrict__ norm, int n)
{
    float acc_0 = 0.0f;  // insn_2
    for (int i = 0; i < n; ++i) {
        float acc = 0.0f;  // insn
        for (int j = 0; j < n; ++j)
            acc += m[i * n + j] * x[j];  // insn
        float defect = f[i] - acc;  // insn
        r[i] = defect;  // insn_1
        acc_0 += defect * defect;  // insn_2
    }
    norm[0] = acc_0;  // insn_2
}
