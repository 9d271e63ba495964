extern "C" __global__ void runs_of_equal_values(const int *a, int *__restrict__ s, int *__restrict__ c, int n)
{
    for (int i = 0; i < n; ++i) {
        s[i] = i == 0 || a[i] != a[i - 1] ? 1 : 0;  // insn
        c[i] = (unsigned int)s[i] + (i >= 1 ? c[i - 1] : 0);  // insn_1
    }
}
