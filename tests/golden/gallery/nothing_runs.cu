extern "C" __global__ void nothing_runs(const int *__restrict__ a, const int *__restrict__ y, int *__restrict__ z, int *__restrict__ s, int n)
{
    z[0] = 5 + 2;  // insn_1
    int acc = 0;  // insn_2
    s[0] = acc;  // insn_2
}
