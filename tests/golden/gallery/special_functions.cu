extern "C" __global__ void __launch_bounds__(32) special_functions(const double *__restrict__ x, double *__restrict__ y, double *__restrict__ root, bool *__restrict__ is_large, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        y[i] = erf(x[i]) + tgamma(x[i]) + lgamma(x[i]) + log1p(x[i]) + expm1(-x[i]) + hypot(x[i], 2.0) + exp2(x[i]) + copysign(x[i], -1.0) + fma(x[i], x[i], 1.0);  // insn
        is_large[i] = x[i] > 2.0 && !isnan(x[i]) && isfinite(x[i]);  // insn_1
        root[i] = rsqrt(x[i]);  // insn_2
    }
}
