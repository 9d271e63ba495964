extern "C" __global__ void __launch_bounds__(128) clip(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 16 * bx + tx;
    if (i < n && j < n) {
        if (-1.0f < x[i * n + j] && x[i * n + j] < 1.0f) {
            y[i * n + j] = x[i * n + j];  // insn
        } else if (x[i * n + j] > 0.0f) {
            y[i * n + j] = 1.0f;  // insn_1
        } else {
            y[i * n + j] = -1.0f;  // insn_2
        }
    }
}
