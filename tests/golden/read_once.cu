// row_sums computes
//     for i in [0, m)
//         for j in [0, 16384)
//             row[j] = a[i, j]
//         y[i] = sum(j, row[j]), j in [0, 16384)
// Sizes: a: m x 16384, y: m
// Launch: row_sums, grid (m), block (512)
// Assumes: m >= 1; a is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: 16384*m, m must not exceed 2147483647

// The sum of x over the 512 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float row_sums_block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[threadIdx.x % 16];
    #pragma unroll
    for (int step = 1; step <= 8; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(512) row_sums(
    const float *__restrict__ a,
    float *__restrict__ y,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[16];
    float acc = 0.0f;
    __align__(16) float row[8][4];
    #pragma unroll
    for (int step = 0; step < 8; ++step) {
        *(float4 *)&row[step][0] = __ldcs((const float4 *)&a[bx * 16384 + 2048 * step + 4 * tx]);
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            acc += row[step][lane];
    }
    acc = row_sums_block_sum_float32(acc, partial);
    if (tx == 0)
        y[bx] = acc;
}
