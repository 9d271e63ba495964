extern "C" __global__ void __launch_bounds__(32) chained_comparisons(const int *__restrict__ x, int *__restrict__ y, int *__restrict__ hits, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        y[i] = -1;  // insn
        if (0 < x[i] && x[i] <= 3)
            y[i] = x[i];  // insn_1
        hits[i] = 0 <= x[i] && x[i] < 5 && 5 <= (int)(x[i] + 3u) ? 1 : 0;  // insn_2
    }
}
