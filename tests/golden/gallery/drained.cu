extern "C" __global__ void __launch_bounds__(8) drained(int *__restrict__ a, int *__restrict__ s, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (8 * bx + tx < n) {
        int acc = 0;  // insn
        for (int k = 0; k < 5; ++k)
            acc += a[(8 * bx + tx) * 5 + 4 - k];  // insn
        s[8 * bx + tx] = acc;  // insn
        for (int k = 0; k < 5; ++k)
            a[(8 * bx + tx) * 5 + k] = 0;  // insn_1
    }
}
