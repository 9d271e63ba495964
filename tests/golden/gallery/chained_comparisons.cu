extern "C" __global__ void __launch_bounds__(32) chained_comparisons(const int *__restrict__ x, int *__restrict__ y, int *__restrict__ hits, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        y[32 * bx + tx] = -1;  // insn
        if (0 < x[32 * bx + tx] && x[32 * bx + tx] <= 3)
            y[32 * bx + tx] = x[32 * bx + tx];  // insn_1
        hits[32 * bx + tx] = 0 <= x[32 * bx + tx] && x[32 * bx + tx] < 5 && 5 <= x[32 * bx + tx] + 3 ? 1 : 0;  // insn_2
    }
}
