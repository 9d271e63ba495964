// dot computes
//     out = sum(k, a[k]*b[k]), k in [0, n)
// Sizes: a: n, b: n
// Launch: dot_0, grid ((n + 63) / 64), block (32)
// Launch: dot_1, grid (1), block (1)
// Assumes: n >= 1; out overlaps no other array
// Indices have 32 bits: n, (n + 63) / 64, n + 126 must not exceed 2147483647

// The sum of x over the 32 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float dot_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(32) dot_0(
    const float *__restrict__ a,
    const float *__restrict__ b,
    int n,
    float *__restrict__ part)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + 63 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        for (int i_outer = 0; i_outer < 2; ++i_outer)
            acc += a[64 * bx + 32 * i_outer + tx] * b[64 * bx + 32 * i_outer + tx];
        acc = dot_warp_sum_float32(acc);
        if (tx == 0)
            part[bx] = acc;
    } else {
        float acc = 0.0f;
        for (int i_outer = 0; i_outer < min(2, (n - tx + 31) / 32 - 2 * bx); ++i_outer)
            acc += a[64 * bx + 32 * i_outer + tx] * b[64 * bx + 32 * i_outer + tx];
        acc = dot_warp_sum_float32(acc);
        if (tx == 0)
            part[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(1) dot_1(
    float *__restrict__ out,
    int n,
    const float *__restrict__ part)
{
    float acc_0 = 0.0f;
    for (int block = 0; block < (n + 63) / 64; ++block)
        acc_0 += part[block];
    out[0] = acc_0;
}
