// row_scan computes
//     for r in [0, m), i in [0, n)
//         b[r, i] = sum(j, a[r, j]), j in [0, i + 1)
// Sizes: a: m x n, b: m x n
// Launch: row_scan, grid (m), block (64)
// Assumes: m >= 0; n >= 0; b overlaps no other array
// Indices have 32 bits: m*n, n + 257 must not exceed 2147483647

// The sum of x over the 64 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float row_scan_block_sum_float32(float x, float *partial)
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
// The sum of x over the threads of the block before this one; the whole block calls it.
static __device__ __forceinline__ float row_scan_block_exclusive_sum_float32(
    float x,
    float *partial)
{
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const float y = __shfl_up_sync(0xffffffff, x, step);
        if (threadIdx.x % 32 >= step)
            x = y + x;
    }
    if (threadIdx.x % 32 == 31)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    float before = 0.0f;
    for (int n = 0; n < threadIdx.x / 32; ++n)
        before += partial[n];
    const float y = __shfl_up_sync(0xffffffff, x, 1);
    return threadIdx.x % 32 == 0 ? before : before + y;
}

extern "C" __global__ void __launch_bounds__(64) row_scan(
    const float *__restrict__ a,
    float *__restrict__ b,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[2];
    __shared__ float partial_0[2];
    float acc_0 = 0.0f;
    // Full tiles, without tests; the others begin at tile_full.
    const int tile_full = n / 128;
    float b_sum;
    for (int tile = 0; tile < tile_full; ++tile) {
        float tile_sum = 0.0f;
        for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
            tile_sum += a[bx * n + 128 * tile + 64 * j_inner_outer + tx];
        tile_sum = row_scan_block_sum_float32(tile_sum, partial);
        float b_carry = acc_0;
        acc_0 += tile_sum;
        b_sum = 0.0f;
        for (int j_local_inner = 0; j_local_inner < 2; ++j_local_inner)
            b_sum += a[bx * n + 128 * tile + 2 * tx + j_local_inner];
        float part = b_sum;
        part = row_scan_block_exclusive_sum_float32(part, partial_0);
        b_carry += part;
        for (int k = 0; k < 2; ++k) {
            const int i = 128 * tile + 2 * tx + k;
            b_carry += a[bx * n + i];
            b[bx * n + i] = b_carry;
        }
    }
    for (int tile = tile_full; tile < (n + 127) / 128; ++tile) {
        float tile_sum = 0.0f;
        for (int j_inner_outer = 0;
                j_inner_outer < min(2, (n - tx + 63) / 64 - 2 * tile);
                ++j_inner_outer)
            tile_sum += a[bx * n + 128 * tile + 64 * j_inner_outer + tx];
        tile_sum = row_scan_block_sum_float32(tile_sum, partial);
        float b_carry = acc_0;
        acc_0 += tile_sum;
        const int a_index = 128 * tile + 2 * tx;
        if (a_index < n)
            b_sum = 0.0f;
        for (int j_local_inner = 0;
                j_local_inner < min(2, n - 128 * tile - 2 * tx);
                ++j_local_inner)
            b_sum += a[bx * n + a_index + j_local_inner];
        float part = 0.0f;
        if (a_index < n)
            part += b_sum;
        part = row_scan_block_exclusive_sum_float32(part, partial_0);
        if (a_index < n)
            b_carry += part;
        for (int k = 0; k < min(2, n - 128 * tile - 2 * tx); ++k) {
            const int i = a_index + k;
            b_carry += a[bx * n + i];
            b[bx * n + i] = b_carry;
        }
    }
}
