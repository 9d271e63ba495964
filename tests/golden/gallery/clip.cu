extern "C" __global__ void __launch_bounds__(128) clip(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (8 * by + ty < n && 16 * bx + tx < n) {
        if (-1.0f < x[(8 * by + ty) * n + 16 * bx + tx] && x[(8 * by + ty) * n + 16 * bx + tx] < 1.0f) {
            y[(8 * by + ty) * n + 16 * bx + tx] = x[(8 * by + ty) * n + 16 * bx + tx];  // insn
        } else if (x[(8 * by + ty) * n + 16 * bx + tx] > 0.0f) {
            y[(8 * by + ty) * n + 16 * bx + tx] = 1.0f;  // insn_1
        } else {
            y[(8 * by + ty) * n + 16 * bx + tx] = -1.0f;  // insn_2
        }
    }
}
