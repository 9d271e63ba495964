// The sum of x over the 32 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float dot_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(1) dot_0(float *__restrict__ out, int n)
{
    out[0] = 0.0f;
}

extern "C" __global__ void __launch_bounds__(32) dot_1(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + 63 < n) {
        float acc = 0.0f;
        for (int i_outer = 0; i_outer < 2; ++i_outer)
            acc += a[64 * bx + 32 * i_outer + tx] * b[64 * bx + 32 * i_outer + tx];
        acc = dot_warp_sum_float32(acc);
        if (tx == 0)
            atomicAdd(&out[0], acc);
    } else {
        float acc = 0.0f;
        for (int i_outer = 0; i_outer < min(2, (n - tx + 31) / 32 - 2 * bx); ++i_outer)
            acc += a[64 * bx + 32 * i_outer + tx] * b[64 * bx + 32 * i_outer + tx];
        acc = dot_warp_sum_float32(acc);
        if (tx == 0)
            atomicAdd(&out[0], acc);
    }
}
