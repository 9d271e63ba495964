#ifndef POLYLOOP_MINMOD_052ECF91
#define POLYLOOP_MINMOD_052ECF91
static __device__ float minmod_float(float a, float b)
{
    if (!(a * b > 0))
        return 0;
    return fabs(a) < fabs(b) ? a : b;
}
#endif

extern "C" __global__ void __launch_bounds__(16) slope_limiter(const float *__restrict__ u, float *__restrict__ slope, float *__restrict__ steepest, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    for (int s = 0; s < 3; ++s) {
        if (i < n)
            slope[s * n + i] = minmod_float(u[s * (n + 2) + i + 1] - u[s * (n + 2) + i], u[s * (n + 2) + i + 2] - u[s * (n + 2) + i + 1]);  // insn
        float acc = -__int_as_float(0x7f800000);  // insn_1
        for (int j = 0; j < n; ++j)
            acc = fmaxf(acc, fabsf(minmod_float(u[s * (n + 2) + j + 1] - u[s * (n + 2) + j], u[s * (n + 2) + j + 2] - u[s * (n + 2) + j + 1])));  // insn_1
        if (bx == 0 && tx == 0)
            steepest[s] = fmaxf(acc, 0.0f);  // insn_1
    }
}
