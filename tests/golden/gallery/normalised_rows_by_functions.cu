extern "C" __global__ void __launch_bounds__(32) normalised_rows_by_functions(const float *__restrict__ a, float *__restrict__ u, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float acc = 0.0f;  // unit_length_insn
        for (int unit_norm_j = 0; unit_norm_j < 3; ++unit_norm_j)
            acc += a[i * 3 + unit_norm_j] * a[i * 3 + unit_norm_j];  // unit_length_insn
        float unit_norm_s = acc;  // unit_length_insn
        float unit_r = sqrtf(unit_norm_s);  // unit_length_insn_1
        for (int unit_j = 0; unit_j < 3; ++unit_j)
            u[i * 3 + unit_j] = a[i * 3 + unit_j] / unit_r;  // unit_insn
    }
}
