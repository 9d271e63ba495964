// compaction computes
//     for i in [0, n)
//         place[i] = sum(j, if(x[j] > 0, 1, 0)), j in [0, i)
//     for k in [0, n)
//         out[place[k]] = x[k] if x[k] > 0
// Sizes: x: n, out: n
// Launch: compaction, grid (1), block (1)
// Assumes: n >= 0; out overlaps no other array
// Indices have 32 bits: n, 2*n + 14, n + 15 must not exceed 2147483647

extern "C" __global__ void compaction(
    const float *x,
    float *__restrict__ out,
    int n,
    int *__restrict__ place)
{
    int acc_0 = 0;
    // Full tiles, without tests; the others begin at i_outer_full.
    const int i_outer_full = n / 8;
    for (int i_outer = 0; i_outer < i_outer_full; ++i_outer) {
        int place_sum = 0;
        for (int j_inner = 0; j_inner < 8; ++j_inner)
            place_sum += (unsigned int)(x[8 * i_outer + j_inner] > 0.0f ? 1 : 0);
        int place_carry = acc_0;
        acc_0 += (unsigned int)place_sum;
        for (int i_inner = 0; i_inner < 8; ++i_inner) {
            const int i = 8 * i_outer + i_inner;
            place[i] = place_carry;
            place_carry += (unsigned int)(x[i] > 0.0f ? 1 : 0);
        }
    }
    for (int i_outer = i_outer_full; i_outer < (n + 7) / 8; ++i_outer) {
        int place_sum = 0;
        for (int j_inner = 0; j_inner < n - 8 * i_outer; ++j_inner)
            place_sum += (unsigned int)(x[8 * i_outer + j_inner] > 0.0f ? 1 : 0);
        int place_carry = acc_0;
        acc_0 += (unsigned int)place_sum;
        for (int i_inner = 0; i_inner < n - 8 * i_outer; ++i_inner) {
            const int i = 8 * i_outer + i_inner;
            place[i] = place_carry;
            place_carry += (unsigned int)(x[i] > 0.0f ? 1 : 0);
        }
    }
    for (int k = 0; k < n; ++k) {
        if (x[k] > 0.0f)
            out[place[k]] = x[k];
    }
}
