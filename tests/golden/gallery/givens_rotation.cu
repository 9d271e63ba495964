extern "C" __global__ void __launch_bounds__(32) givens_rotation(float *__restrict__ x, float *__restrict__ y, float c, float s, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        float y_new = s * x[32 * bx + tx] + c * y[32 * bx + tx];  // insn
        x[32 * bx + tx] = c * x[32 * bx + tx] - s * y[32 * bx + tx];  // insn_1
        y[32 * bx + tx] = y_new;  // insn_2
    }
}
