typedef struct {
    double count;
    double mean;
    double rest;
} welford_state;
static_assert(sizeof(welford_state) == 24, "welford_state is not laid out as in NumPy");

static __device__ __forceinline__ welford_state make_welford_state(double count, double mean, double rest)
{
    welford_state result;
    result.count = count;
    result.mean = mean;
    result.rest = rest;
    return result;
}
static __device__ __forceinline__ welford_state welford(welford_state a, welford_state b)
{
    welford_state result;
    result.count = a.count + b.count;
    result.mean = a.mean + (b.mean - a.mean) * (b.count / fmax(a.count + b.count, 1.0));
    result.rest = a.rest + b.rest + (b.mean - a.mean) * (b.mean - a.mean) * (a.count * b.count / fmax(a.count + b.count, 1.0));
    return result;
}
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ welford_state exchanged_welford_state(welford_state x, int step)
{
    x.count = __shfl_xor_sync(0xffffffff, x.count, step);
    x.mean = __shfl_xor_sync(0xffffffff, x.mean, step);
    x.rest = __shfl_xor_sync(0xffffffff, x.rest, step);
    return x;
}
// Leaves out y if it has no terms.
static __device__ __forceinline__ welford_state welford_of_parts(welford_state x, welford_state y)
{
    return (y.count != 0.0 || y.mean != 0.0 || y.rest != 0.0) ? welford(x, y) : x;
}
// The welford of x over the 32 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ welford_state warp_welford(welford_state x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2) {
        const welford_state y = exchanged_welford_state(x, step);
        x = threadIdx.x & step ? welford_of_parts(y, x) : welford_of_parts(x, y);
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(32) mean_and_variance_0(const double *__restrict__ x, int n, welford_state *__restrict__ states)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + 63 < n) {
        welford_state acc = make_welford_state(0.0, 0.0, 0.0);
        for (int t_outer = 0; t_outer < 2; ++t_outer)
            acc = welford(acc, make_welford_state(1.0, x[64 * bx + 32 * t_outer + tx], 0.0));
        acc = warp_welford(acc);
        if (tx == 0)
            states[bx] = acc;
    } else {
        welford_state acc = make_welford_state(0.0, 0.0, 0.0);
        for (int t_outer = 0; t_outer < min(2, (n - tx + 31) / 32 - 2 * bx); ++t_outer)
            acc = welford(acc, make_welford_state(1.0, x[64 * bx + 32 * t_outer + tx], 0.0));
        acc = warp_welford(acc);
        if (tx == 0)
            states[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(32) mean_and_variance_1(double *__restrict__ mean, double *__restrict__ spread, int n, const welford_state *__restrict__ states)
{
    const int tx = threadIdx.x;
    welford_state acc_0 = make_welford_state(0.0, 0.0, 0.0);  // insn
    for (int b = 0; b < (n + 63) / 64; ++b)
        acc_0 = welford(acc_0, states[b]);  // insn
    welford_state welford_value = acc_0;  // insn
    double number = welford_value.count;  // insn_1
    double middle = welford_value.mean;  // insn_2
    double rest = welford_value.rest;  // insn_3
    if (tx == 0) {
        mean[0] = middle;  // insn_4
        spread[0] = rest / number;  // insn_5
    }
}
