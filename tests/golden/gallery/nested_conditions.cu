extern "C" __global__ void __launch_bounds__(64) nested_conditions(const int *__restrict__ a, int *__restrict__ out, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    if (by == bx && ty == tx && j < n) {
        if (a[i * n + j] > 0) {
            out[i * n + j] = 1;  // insn
        } else {
            out[i * n + j] = 2;  // insn_1
        }
    }
    if (j < n && i < j) {
        if (a[i * n + j] < 0) {
            out[i * n + j] = 3;  // insn_2
        } else {
            out[i * n + j] = 4;  // insn_3
        }
    }
    if (i < n && j < i)
        out[i * n + j] = 5;  // insn_4
}
