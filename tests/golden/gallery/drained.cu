extern "C" __global__ void __launch_bounds__(8) drained(int *__restrict__ a, int *__restrict__ s, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    if (i < n) {
        int acc = 0;  // insn
        for (int k = 0; k < 5; ++k)
            acc += (unsigned int)a[i * 5 + 4 - k];  // insn
        s[i] = acc;  // insn
        for (int k = 0; k < 5; ++k)
            a[i * 5 + k] = 0;  // insn_1
    }
}
