// quadrature computes
//     pi = h*sum(k, 4.0/(1.0 + (k + 0.5)*h*((k + 0.5)*h))), k in [0, n)
// Launch: quadrature_0, grid ((n + 63) / 64), block (32)
// Launch: quadrature_1, grid (1), block (32)
// Assumes: n >= 1
// Indices have 32 bits: (n + 63) / 64, n + 2047 must not exceed 2147483647

// The sum of x over the 32 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ double quadrature_warp_sum_float64(double x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(32) quadrature_0(
    double h,
    int n,
    double *__restrict__ part)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + 63 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        double acc = 0.0;
        for (int i_outer = 0; i_outer < 2; ++i_outer)
            acc += 4.0 / (
                1.0
                + (64 * bx + (32 * i_outer + tx) + 0.5) * h * (
                    (64 * bx + (32 * i_outer + tx) + 0.5) * h));
        acc = quadrature_warp_sum_float64(acc);
        if (tx == 0)
            part[bx] = acc;
    } else {
        double acc = 0.0;
        for (int i_outer = 0; i_outer < min(2, (n - tx + 31) / 32 - 2 * bx); ++i_outer)
            acc += 4.0 / (
                1.0
                + (64 * bx + (32 * i_outer + tx) + 0.5) * h * (
                    (64 * bx + (32 * i_outer + tx) + 0.5) * h));
        acc = quadrature_warp_sum_float64(acc);
        if (tx == 0)
            part[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(32) quadrature_1(
    double h,
    double *__restrict__ pi,
    int n,
    const double *__restrict__ part)
{
    const int tx = threadIdx.x;
    double acc_0 = 0.0;
    for (int block_outer = 0; block_outer < (n - 64 * tx + 2047) / 2048; ++block_outer)
        acc_0 += part[32 * block_outer + tx];
    acc_0 = quadrature_warp_sum_float64(acc_0);
    if (tx == 0)
        pi[0] = h * acc_0;
}
