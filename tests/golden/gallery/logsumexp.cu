typedef struct {
    float top;
    float rest;
} logsumexp_log_sum_exp_state;
static_assert(sizeof(logsumexp_log_sum_exp_state) == 8, "logsumexp_log_sum_exp_state is not laid out as in NumPy");

static __device__ __forceinline__ logsumexp_log_sum_exp_state logsumexp_make_log_sum_exp_state(float top, float rest)
{
    logsumexp_log_sum_exp_state result;
    result.top = top;
    result.rest = rest;
    return result;
}
static __device__ __forceinline__ logsumexp_log_sum_exp_state logsumexp_log_sum_exp(logsumexp_log_sum_exp_state a, logsumexp_log_sum_exp_state b)
{
    logsumexp_log_sum_exp_state result;
    result.top = fmaxf(a.top, b.top);
    result.rest = a.rest * expf(a.top - fmaxf(a.top, b.top)) + b.rest * expf(b.top - fmaxf(a.top, b.top));
    return result;
}

extern "C" __global__ void __launch_bounds__(16) logsumexp(const float *__restrict__ x, float *__restrict__ y, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        logsumexp_log_sum_exp_state acc = logsumexp_make_log_sum_exp_state(-__int_as_float(0x7f800000), 0.0f);  // insn
        for (int j = 0; j < n; ++j)
            acc = logsumexp_log_sum_exp(acc, logsumexp_make_log_sum_exp_state(x[i * n + j], 1.0f));  // insn
        logsumexp_log_sum_exp_state log_sum_exp_value = acc;  // insn
        float top = log_sum_exp_value.top;  // insn_1
        float rest = log_sum_exp_value.rest;  // insn_2
        y[i] = top + logf(rest);  // insn_3
    }
}
