// dot computes
//     out = sum(k, a[k]*b[k]), k in [0, n)
// Sizes: a: n, b: n
// Launch: dot_0, grid ((n + 63) / 64), block (16)
// Launch: dot_1, grid (1), block (16)
// Assumes: n >= 1; out overlaps no other array
// Indices have 32 bits: n, (n + 63) / 64, n + 1023 must not exceed 2147483647

// The sum of x over the 16 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float dot_sum_over_x_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 8; step *= 2)
        x += __shfl_xor_sync(0xffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(16) dot_0(
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
        float part_0[2];
        #pragma unroll
        for (int k_inner_inner_outer = 0; k_inner_inner_outer < 2; ++k_inner_inner_outer)
            part_0[k_inner_inner_outer] = 0.0f;
        for (int k_inner_outer = 0; k_inner_outer < 2; ++k_inner_outer) {
            #pragma unroll
            for (int k_inner_inner_outer = 0; k_inner_inner_outer < 2; ++k_inner_inner_outer) {
                const int offset = 64 * bx + 32 * k_inner_outer + 16 * k_inner_inner_outer + tx;
                part_0[k_inner_inner_outer] += a[offset] * b[offset];
            }
        }
        #pragma unroll
        for (int k_inner_inner_outer = 0; k_inner_inner_outer < 2; ++k_inner_inner_outer)
            acc += part_0[k_inner_inner_outer];
        acc = dot_sum_over_x_float32(acc);
        if (tx == 0)
            part[bx] = acc;
    } else {
        float acc = 0.0f;
        float part_0[2];
        #pragma unroll
        for (int k_inner_inner_outer = 0; k_inner_inner_outer < 2; ++k_inner_inner_outer)
            part_0[k_inner_inner_outer] = 0.0f;
        for (int k_inner_outer = 0;
                k_inner_outer < min(2, (n - tx + 31) / 32 - 2 * bx);
                ++k_inner_outer) {
            #pragma unroll
            for (int k_inner_inner_outer = 0; k_inner_inner_outer < 2; ++k_inner_inner_outer) {
                const int position = 64 * bx + 32 * k_inner_outer + 16 * k_inner_inner_outer + tx;
                if (position < n)
                    part_0[k_inner_inner_outer] += a[position] * b[position];
            }
        }
        #pragma unroll
        for (int k_inner_inner_outer = 0; k_inner_inner_outer < 2; ++k_inner_inner_outer)
            acc += part_0[k_inner_inner_outer];
        acc = dot_sum_over_x_float32(acc);
        if (tx == 0)
            part[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(16) dot_1(
    float *__restrict__ out,
    int n,
    const float *__restrict__ part)
{
    const int tx = threadIdx.x;
    float acc_0 = 0.0f;
    for (int k_outer_outer = 0; k_outer_outer < (n - 64 * tx + 1023) / 1024; ++k_outer_outer)
        acc_0 += part[16 * k_outer_outer + tx];
    acc_0 = dot_sum_over_x_float32(acc_0);
    if (tx == 0)
        out[0] = acc_0;
}
