extern "C" __global__ void __launch_bounds__(64) nested_conditions(const int *__restrict__ a, int *__restrict__ out, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (by == bx && ty == tx && 8 * bx + tx < n) {
        if (a[(8 * by + ty) * n + 8 * bx + tx] > 0) {
            out[(8 * by + ty) * n + 8 * bx + tx] = 1;  // insn
        } else {
            out[(8 * by + ty) * n + 8 * bx + tx] = 2;  // insn_1
        }
    }
    if (8 * bx + tx < n && 8 * by + ty < 8 * bx + tx) {
        if (a[(8 * by + ty) * n + 8 * bx + tx] < 0) {
            out[(8 * by + ty) * n + 8 * bx + tx] = 3;  // insn_2
        } else {
            out[(8 * by + ty) * n + 8 * bx + tx] = 4;  // insn_3
        }
    }
    if (8 * by + ty < n && 8 * bx + tx < 8 * by + ty)
        out[(8 * by + ty) * n + 8 * bx + tx] = 5;  // insn_4
}
