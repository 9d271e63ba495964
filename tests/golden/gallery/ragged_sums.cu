// ragged_sums computes
//     for i in [0, n)
//         length = lengths[i]
//         s[i] = sum(j, a[i, j]), j in [0, length)
//     longest[0] = max(r, lengths[r]), r in [0, n)
// Sizes: a: n x 5, lengths: n, longest: 1, s: n
// Launch: ragged_sums, grid (1), block (1)
// Assumes: n >= 0; longest, s overlap no other array

extern "C" __global__ void ragged_sums(
    const int *__restrict__ a,
    const long long *__restrict__ lengths,
    long long *__restrict__ longest,
    int *__restrict__ s,
    int n_arg)
{
    const long long n = (long long)n_arg;
    for (long long i = 0; i < n; ++i) {
        long long length = lengths[i];
        int acc = 0;
        for (long long j_outer = 0; 2 * j_outer < length; ++j_outer) {
            #pragma unroll
            for (long long j_inner = 0; j_inner < 2; ++j_inner) {
                const long long j = 2 * j_outer + j_inner;
                if (j < length)
                    acc += (unsigned int)a[i * 5 + j];
            }
        }
        s[i] = acc;
    }
    long long acc_0 = (-9223372036854775807ll - 1);
    for (long long r = 0; r < n; ++r)
        acc_0 = max(acc_0, lengths[r]);
    longest[0] = acc_0;
}
