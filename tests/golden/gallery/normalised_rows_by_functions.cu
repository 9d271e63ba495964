// normalised_rows_by_functions computes
//     for i in [0, n)
//         unit_norm_s = sum(unit_norm_j, a[i, unit_norm_j]*a[i, unit_norm_j]),
//             unit_norm_j in [0, 3)
//         unit_r = sqrt(unit_norm_s)
//         for unit_j in [0, 3)
//             u[i, unit_j] = a[i, unit_j]/unit_r
// Sizes: a: n x 3, u: n x 3
// Launch: normalised_rows_by_functions, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; u overlaps no other array
// Indices have 32 bits: 3*n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) normalised_rows_by_functions(
    const float *__restrict__ a,
    float *__restrict__ u,
    int n)
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
