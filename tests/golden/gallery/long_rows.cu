// long_rows computes
//     for i in [0, m)
//         s = sum(k, a[i, k]**2), k in [0, n)
//         norms[i] = sqrt(s)
// Sizes: a: m x n, norms: m
// Launch: long_rows_0, grid ((n + 255) / 256, m), block (64)
// Launch: long_rows_1, grid (m), block (64)
// Assumes: m >= 1; n >= 1; norms overlaps no other array
// Indices have 32 bits: m*n, m, m*((n + 255) / 256), n + 16383 must not exceed 2147483647

// The sum of x over the 64 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float long_rows_block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    x += partial[1];
    return x;
}

extern "C" __global__ void __launch_bounds__(64) long_rows_0(
    const float *__restrict__ a,
    int m,
    int n,
    float *__restrict__ sums)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    __shared__ float partial[2];
    if (256 * bx + 255 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        float part[2];
        #pragma unroll
        for (int t_inner_outer = 0; t_inner_outer < 2; ++t_inner_outer)
            part[t_inner_outer] = 0.0f;
        for (int t_outer = 0; t_outer < 2; ++t_outer) {
            #pragma unroll
            for (int t_inner_outer = 0; t_inner_outer < 2; ++t_inner_outer) {
                const int a_offset = by * n + 256 * bx + 128 * t_outer + 64 * t_inner_outer + tx;
                part[t_inner_outer] += a[a_offset] * a[a_offset];
            }
        }
        #pragma unroll
        for (int t_inner_outer = 0; t_inner_outer < 2; ++t_inner_outer)
            acc += part[t_inner_outer];
        acc = long_rows_block_sum_float32(acc, partial);
        if (tx == 0)
            sums[by * ((n + 255) / 256) + bx] = acc;
    } else {
        float acc = 0.0f;
        float part[2];
        #pragma unroll
        for (int t_inner_outer = 0; t_inner_outer < 2; ++t_inner_outer)
            part[t_inner_outer] = 0.0f;
        for (int t_outer = 0; t_outer < min(2, (n - tx + 127) / 128 - 2 * bx); ++t_outer) {
            #pragma unroll
            for (int t_inner_outer = 0; t_inner_outer < 2; ++t_inner_outer) {
                const int a_index = 256 * bx + 128 * t_outer + 64 * t_inner_outer + tx;
                if (a_index < n)
                    part[t_inner_outer] += a[by * n + a_index] * a[by * n + a_index];
            }
        }
        #pragma unroll
        for (int t_inner_outer = 0; t_inner_outer < 2; ++t_inner_outer)
            acc += part[t_inner_outer];
        acc = long_rows_block_sum_float32(acc, partial);
        if (tx == 0)
            sums[by * ((n + 255) / 256) + bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(64) long_rows_1(
    float *__restrict__ norms,
    int m,
    int n,
    const float *__restrict__ sums)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial_0[2];
    float acc_0 = 0.0f;  // sums
    for (int b_outer = 0; b_outer < (n - 256 * tx + 16383) / 16384; ++b_outer)
        acc_0 += sums[bx * ((n + 255) / 256) + 64 * b_outer + tx];  // sums
    acc_0 = long_rows_block_sum_float32(acc_0, partial_0);  // sums
    float s = acc_0;  // sums
    if (tx == 0)
        norms[bx] = sqrtf(s);
}
