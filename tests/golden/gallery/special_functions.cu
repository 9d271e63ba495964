extern "C" __global__ void __launch_bounds__(32) special_functions(const double *__restrict__ x, double *__restrict__ y, double *__restrict__ root, bool *__restrict__ is_large, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        y[32 * bx + tx] = erf(x[32 * bx + tx]) + tgamma(x[32 * bx + tx]) + lgamma(x[32 * bx + tx]) + log1p(x[32 * bx + tx]) + expm1(-x[32 * bx + tx]) + hypot(x[32 * bx + tx], 2.0) + exp2(x[32 * bx + tx]) + copysign(x[32 * bx + tx], -1.0) + fma(x[32 * bx + tx], x[32 * bx + tx], 1.0);  // insn
        is_large[32 * bx + tx] = x[32 * bx + tx] > 2.0 && !isnan(x[32 * bx + tx]) && isfinite(x[32 * bx + tx]);  // insn_1
        root[32 * bx + tx] = rsqrt(x[32 * bx + tx]);  // insn_2
    }
}
