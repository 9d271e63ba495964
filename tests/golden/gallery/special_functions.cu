// special_functions computes
//     for i in [0, n)
//         y[i] = erf(x[i]) + tgamma(x[i]) + lgamma(x[i]) + log1p(x[i]) + expm1(-x[i])
//             + hypot(x[i], 2) + exp2(x[i]) + copysign(x[i], -1) + fma(x[i], x[i], 1)
//         is_large[i] = x[i] > 2 and not isnan(x[i]) and isfinite(x[i])
//         root[i] = rsqrt(x[i])
// Sizes: x: n, y: n, root: n, is_large: n
// Launch: special_functions, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; y, root, is_large overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) special_functions(
    const double *__restrict__ x,
    double *__restrict__ y,
    double *__restrict__ root,
    bool *__restrict__ is_large,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        y[i] = erf(x[i])
            + tgamma(x[i])
            + lgamma(x[i])
            + log1p(x[i])
            + expm1(-x[i])
            + hypot(x[i], 2.0)
            + exp2(x[i])
            + copysign(x[i], -1.0)
            + fma(x[i], x[i], 1.0);
        is_large[i] = x[i] > 2.0 && !isnan(x[i]) && isfinite(x[i]);
        root[i] = rsqrt(x[i]);
    }
}
