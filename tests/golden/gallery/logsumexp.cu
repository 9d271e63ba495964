// logsumexp computes
//     for i in [0, m)
//         log_sum_exp_value = log_sum_exp(j, x[i, j], 1), j in [0, n)
//         top = log_sum_exp_value.top
//         rest = log_sum_exp_value.rest
//         y[i] = top + log(rest)
// Sizes: x: m x n, y: m
// Launch: logsumexp, grid ((m + 15) / 16), block (16)
// Assumes: m >= 0; n >= 0; y overlaps no other array
// Indices have 32 bits: m*n, m, m + 31 must not exceed 2147483647

typedef struct {
    float top;
    float rest;
} logsumexp_log_sum_exp_state;
static_assert(
    sizeof(logsumexp_log_sum_exp_state) == 8,
    "logsumexp_log_sum_exp_state is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ logsumexp_log_sum_exp_state logsumexp_make_log_sum_exp_state(
    float top,
    float rest)
{
    logsumexp_log_sum_exp_state result;
    result.top = top;
    result.rest = rest;
    return result;
}
static __device__ __forceinline__ logsumexp_log_sum_exp_state logsumexp_log_sum_exp(
    logsumexp_log_sum_exp_state a,
    logsumexp_log_sum_exp_state b)
{
    logsumexp_log_sum_exp_state result;
    result.top = fmaxf(a.top, b.top);
    result.rest =
        a.rest * expf(a.top - fmaxf(a.top, b.top)) + b.rest * expf(b.top - fmaxf(a.top, b.top));
    return result;
}

extern "C" __global__ void __launch_bounds__(16) logsumexp(
    const float *__restrict__ x,
    float *__restrict__ y,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        logsumexp_log_sum_exp_state acc = logsumexp_make_log_sum_exp_state(-INFINITY, 0.0f);
        for (int j = 0; j < n; ++j)
            acc = logsumexp_log_sum_exp(acc, logsumexp_make_log_sum_exp_state(x[i * n + j], 1.0f));
        logsumexp_log_sum_exp_state log_sum_exp_value = acc;
        float top = log_sum_exp_value.top;
        float rest = log_sum_exp_value.rest;
        y[i] = top + logf(rest);
    }
}
