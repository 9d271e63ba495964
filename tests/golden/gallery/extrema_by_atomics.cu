// The least x over the 32 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ int extrema_by_atomics_warp_min_int32(int x)
{
    x = __reduce_min_sync(0xffffffff, x);
    return x;
}
// The greatest x over the 32 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ int extrema_by_atomics_warp_max_int32(int x)
{
    x = __reduce_max_sync(0xffffffff, x);
    return x;
}

extern "C" __global__ void __launch_bounds__(1) extrema_by_atomics_0(int *__restrict__ low, int n)
{
    low[0] = 2147483647;
}

extern "C" __global__ void __launch_bounds__(32) extrema_by_atomics_1(const int *__restrict__ x, int *__restrict__ low, int *__restrict__ high, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (128 * bx + 127 < n) {
        int acc = 2147483647;  // low
        for (int k_inner_outer = 0; k_inner_outer < 4; ++k_inner_outer)
            acc = min(acc, x[128 * bx + 32 * k_inner_outer + tx]);  // low
        acc = extrema_by_atomics_warp_min_int32(acc);  // low
        if (tx == 0)
            atomicMin(&low[0], acc);  // low
        if (bx == 0 && tx == 0)
            high[0] = (-2147483647 - 1);  // high_init
    } else {
        int acc = 2147483647;  // low
        for (int k_inner_outer = 0; k_inner_outer < min(4, (n - tx + 31) / 32 - 4 * bx); ++k_inner_outer)
            acc = min(acc, x[128 * bx + 32 * k_inner_outer + tx]);  // low
        if (128 * bx < n)
            acc = extrema_by_atomics_warp_min_int32(acc);  // low
        if (tx == 0 && 128 * bx < n)
            atomicMin(&low[0], acc);  // low
        if (bx == 0 && tx == 0)
            high[0] = (-2147483647 - 1);  // high_init
    }
}

extern "C" __global__ void __launch_bounds__(32) extrema_by_atomics_2(const int *__restrict__ x, int *__restrict__ high, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (128 * bx + 127 < n) {
        int acc_0 = (-2147483647 - 1);
        for (int l_inner_outer = 0; l_inner_outer < 4; ++l_inner_outer)
            acc_0 = max(acc_0, x[128 * bx + 32 * l_inner_outer + tx]);
        acc_0 = extrema_by_atomics_warp_max_int32(acc_0);
        if (tx == 0)
            atomicMax(&high[0], acc_0);
    } else {
        int acc_0 = (-2147483647 - 1);
        for (int l_inner_outer = 0; l_inner_outer < min(4, (n - tx + 31) / 32 - 4 * bx); ++l_inner_outer)
            acc_0 = max(acc_0, x[128 * bx + 32 * l_inner_outer + tx]);
        acc_0 = extrema_by_atomics_warp_max_int32(acc_0);
        if (tx == 0)
            atomicMax(&high[0], acc_0);
    }
}
