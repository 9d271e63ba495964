// logsumexp_by_a_block computes
//     for i in [0, m)
//         log_sum_exp_value = log_sum_exp(j, x[i, j], 1), j in [0, n)
//         top = log_sum_exp_value.top
//         rest = log_sum_exp_value.rest
//         y[i] = top + log(rest)
// Sizes: x: m x n, y: m
// Launch: logsumexp_by_a_block, grid (m), block (64)
// Assumes: m >= 0; n >= 0; y overlaps no other array
// Indices have 32 bits: m*n, m, n + 192 must not exceed 2147483647

typedef struct {
    float top;
    float rest;
} logsumexp_by_a_block_log_sum_exp_state;
static_assert(
    sizeof(logsumexp_by_a_block_log_sum_exp_state) == 8,
    "logsumexp_by_a_block_log_sum_exp_state is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ logsumexp_by_a_block_log_sum_exp_state
logsumexp_by_a_block_make_log_sum_exp_state(
    float top,
    float rest)
{
    logsumexp_by_a_block_log_sum_exp_state result;
    result.top = top;
    result.rest = rest;
    return result;
}
static __device__ __forceinline__ logsumexp_by_a_block_log_sum_exp_state
logsumexp_by_a_block_log_sum_exp(
    logsumexp_by_a_block_log_sum_exp_state a,
    logsumexp_by_a_block_log_sum_exp_state b)
{
    logsumexp_by_a_block_log_sum_exp_state result;
    result.top = fmaxf(a.top, b.top);
    result.rest =
        a.rest * expf(a.top - fmaxf(a.top, b.top)) + b.rest * expf(b.top - fmaxf(a.top, b.top));
    return result;
}
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ logsumexp_by_a_block_log_sum_exp_state
logsumexp_by_a_block_exchanged_log_sum_exp_state(
    logsumexp_by_a_block_log_sum_exp_state x,
    int step)
{
    x.top = __shfl_xor_sync(0xffffffff, x.top, step);
    x.rest = __shfl_xor_sync(0xffffffff, x.rest, step);
    return x;
}
// Leaves out y if it has no terms.
static __device__ __forceinline__ logsumexp_by_a_block_log_sum_exp_state
logsumexp_by_a_block_log_sum_exp_of_parts(
    logsumexp_by_a_block_log_sum_exp_state x,
    logsumexp_by_a_block_log_sum_exp_state y)
{
    return (y.top != -INFINITY || y.rest != 0.0f) ? logsumexp_by_a_block_log_sum_exp(x, y) : x;
}
// The log_sum_exp of x over the 64 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ logsumexp_by_a_block_log_sum_exp_state
logsumexp_by_a_block_block_log_sum_exp(
    logsumexp_by_a_block_log_sum_exp_state x,
    logsumexp_by_a_block_log_sum_exp_state *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2) {
        const logsumexp_by_a_block_log_sum_exp_state y =
            logsumexp_by_a_block_exchanged_log_sum_exp_state(x, step);
        x = threadIdx.x & step
            ? logsumexp_by_a_block_log_sum_exp_of_parts(y, x)
            : logsumexp_by_a_block_log_sum_exp_of_parts(x, y);
    }
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    x = logsumexp_by_a_block_log_sum_exp_of_parts(x, partial[1]);
    return x;
}

extern "C" __global__ void __launch_bounds__(64) logsumexp_by_a_block(
    const float *__restrict__ x,
    float *__restrict__ y,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ logsumexp_by_a_block_log_sum_exp_state partial[2];
    logsumexp_by_a_block_log_sum_exp_state acc =
        logsumexp_by_a_block_make_log_sum_exp_state(-INFINITY, 0.0f);
    for (int j = tx; j < n; j += 64)
        acc = logsumexp_by_a_block_log_sum_exp(
            acc, logsumexp_by_a_block_make_log_sum_exp_state(x[bx * n + j], 1.0f));
    acc = logsumexp_by_a_block_block_log_sum_exp(acc, partial);
    logsumexp_by_a_block_log_sum_exp_state log_sum_exp_value = acc;
    float top = log_sum_exp_value.top;
    float rest = log_sum_exp_value.rest;
    if (tx == 0)
        y[bx] = top + logf(rest);
}
