// dot computes
//     out = 0.0
//     for block in [0, (n + 63) // 64)
//         out = out + sum((i_outer, i_inner), a[64*block + (32*i_outer + i_inner)]*b[64*block
//             + (32*i_outer + i_inner)]), i_outer in [0, min(2, (n - 64*block + 31) // 32)),
//             i_inner in [0, min(32, n - 64*block - 32*i_outer))
// Sizes: a: n, b: n
// Launch: dot_0, grid (1), block (1)
// Launch: dot_1, grid ((n + 63) / 64), block (32)
// Assumes: n >= 1; out overlaps no other array
// Indices have 32 bits: n, n + 159 must not exceed 2147483647

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

extern "C" __global__ void __launch_bounds__(32) dot_1(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + 63 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        for (int i_outer = 0; i_outer < 2; ++i_outer) {
            const int position = 64 * bx + 32 * i_outer + tx;
            acc += a[position] * b[position];
        }
        acc = dot_warp_sum_float32(acc);
        if (tx == 0)
            atomicAdd(&out[0], acc);
    } else {
        float acc = 0.0f;
        for (int i_outer = 0; i_outer < min(2, (n - tx + 31) / 32 - 2 * bx); ++i_outer) {
            const int position = 64 * bx + 32 * i_outer + tx;
            acc += a[position] * b[position];
        }
        acc = dot_warp_sum_float32(acc);
        if (tx == 0)
            atomicAdd(&out[0], acc);
    }
}
