extern "C" __global__ void __launch_bounds__(32) givens_rotation(float *__restrict__ x, float *__restrict__ y, float c, float s, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float y_new = s * x[i] + c * y[i];  // insn
        x[i] = c * x[i] - s * y[i];  // insn_1
        y[i] = y_new;  // insn_2
    }
}
