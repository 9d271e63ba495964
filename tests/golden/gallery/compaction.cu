extern "C" __global__ void compaction(const float *x, float *__restrict__ out, int n, int *__restrict__ place)
{
    int acc_0 = 0;  // place_carry
    const int i_outer_full = n / 8;
    for (int i_outer = 0; i_outer < i_outer_full; ++i_outer) {
        int place_sum = 0;  // place_sum
        for (int j_inner = 0; j_inner < 8; ++j_inner)
            place_sum += (unsigned int)(x[8 * i_outer + j_inner] > 0.0f ? 1 : 0);  // place_sum
        int place_carry = acc_0;  // place_carry
        acc_0 += (unsigned int)place_sum;  // place_carry
        for (int i_inner = 0; i_inner < 8; ++i_inner) {
            const int i = 8 * i_outer + i_inner;
            place[i] = place_carry;  // insn
            place_carry += (unsigned int)(x[i] > 0.0f ? 1 : 0);  // insn
        }
    }
    for (int i_outer = i_outer_full; i_outer < (n + 7) / 8; ++i_outer) {
        int place_sum = 0;  // place_sum
        for (int j_inner = 0; j_inner < n - 8 * i_outer; ++j_inner)
            place_sum += (unsigned int)(x[8 * i_outer + j_inner] > 0.0f ? 1 : 0);  // place_sum
        int place_carry = acc_0;  // place_carry
        acc_0 += (unsigned int)place_sum;  // place_carry
        for (int i_inner = 0; i_inner < n - 8 * i_outer; ++i_inner) {
            const int i = 8 * i_outer + i_inner;
            place[i] = place_carry;  // insn
            place_carry += (unsigned int)(x[i] > 0.0f ? 1 : 0);  // insn
        }
    }
    for (int k = 0; k < n; ++k) {
        if (x[k] > 0.0f)
            out[place[k]] = x[k];  // insn_1
    }
}
