// mean_and_variance computes
//     welford_value = welford(k, 1.0, x[k], 0.0), k in [0, n)
//     number = welford_value.count
//     middle = welford_value.mean
//     rest = welford_value.rest
//     mean = middle
//     spread = rest/number
// Sizes: x: n
// Launch: mean_and_variance_0, grid ((n + 63) / 64), block (32)
// Launch: mean_and_variance_1, grid (1), block (1)
// Assumes: n >= 1; mean, spread overlap no other array
// Indices have 32 bits: n, (n + 63) / 64, n + 126 must not exceed 2147483647

typedef struct {
    double count;
    double mean;
    double rest;
} mean_and_variance_welford_state;
static_assert(
    sizeof(mean_and_variance_welford_state) == 24,
    "mean_and_variance_welford_state is not laid out as in NumPy");

static __device__ __forceinline__ mean_and_variance_welford_state
mean_and_variance_make_welford_state(
    double count,
    double mean,
    double rest)
{
    mean_and_variance_welford_state result;
    result.count = count;
    result.mean = mean;
    result.rest = rest;
    return result;
}
static __device__ __forceinline__ mean_and_variance_welford_state mean_and_variance_welford(
    mean_and_variance_welford_state a,
    mean_and_variance_welford_state b)
{
    mean_and_variance_welford_state result;
    result.count = a.count + b.count;
    result.mean = a.mean + (b.mean - a.mean) * (b.count / fmax(a.count + b.count, 1.0));
    result.rest = a.rest
        + b.rest
        + (b.mean - a.mean) * (b.mean - a.mean) * (
            a.count * b.count / fmax(a.count + b.count, 1.0));
    return result;
}
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ mean_and_variance_welford_state
mean_and_variance_exchanged_welford_state(
    mean_and_variance_welford_state x,
    int step)
{
    x.count = __shfl_xor_sync(0xffffffff, x.count, step);
    x.mean = __shfl_xor_sync(0xffffffff, x.mean, step);
    x.rest = __shfl_xor_sync(0xffffffff, x.rest, step);
    return x;
}
// Leaves out y if it has no terms.
static __device__ __forceinline__ mean_and_variance_welford_state
mean_and_variance_welford_of_parts(
    mean_and_variance_welford_state x,
    mean_and_variance_welford_state y)
{
    return (y.count != 0.0 || y.mean != 0.0 || y.rest != 0.0) ? mean_and_variance_welford(x, y) : x;
}
// The welford of x over the 32 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ mean_and_variance_welford_state mean_and_variance_warp_welford(
    mean_and_variance_welford_state x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2) {
        const mean_and_variance_welford_state y =
            mean_and_variance_exchanged_welford_state(x, step);
        x = threadIdx.x & step
            ? mean_and_variance_welford_of_parts(y, x)
            : mean_and_variance_welford_of_parts(x, y);
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(32) mean_and_variance_0(
    const double *__restrict__ x,
    int n,
    mean_and_variance_welford_state *__restrict__ states)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + 63 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        mean_and_variance_welford_state acc = mean_and_variance_make_welford_state(0.0, 0.0, 0.0);
        for (int t_outer = 0; t_outer < 2; ++t_outer)
            acc = mean_and_variance_welford(
                acc,
                mean_and_variance_make_welford_state(1.0, x[64 * bx + 32 * t_outer + tx], 0.0));
        acc = mean_and_variance_warp_welford(acc);
        if (tx == 0)
            states[bx] = acc;
    } else {
        mean_and_variance_welford_state acc = mean_and_variance_make_welford_state(0.0, 0.0, 0.0);
        for (int t_outer = 0; t_outer < min(2, (n - tx + 31) / 32 - 2 * bx); ++t_outer)
            acc = mean_and_variance_welford(
                acc,
                mean_and_variance_make_welford_state(1.0, x[64 * bx + 32 * t_outer + tx], 0.0));
        acc = mean_and_variance_warp_welford(acc);
        if (tx == 0)
            states[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(1) mean_and_variance_1(
    double *__restrict__ mean,
    double *__restrict__ spread,
    int n,
    const mean_and_variance_welford_state *__restrict__ states)
{
    mean_and_variance_welford_state acc_0 = mean_and_variance_make_welford_state(0.0, 0.0, 0.0);
    for (int b = 0; b < (n + 63) / 64; ++b)
        acc_0 = mean_and_variance_welford(acc_0, states[b]);
    mean_and_variance_welford_state welford_value = acc_0;
    double number = welford_value.count;
    double middle = welford_value.mean;
    double rest = welford_value.rest;
    mean[0] = middle;
    spread[0] = rest / number;
}
