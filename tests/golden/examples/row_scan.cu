// row_scan computes
//     for r in [0, m), i in [0, n)
//         b[r, i] = sum(j, a[r, j]), j in [0, i + 1)
// Sizes: a: m x n, b: m x n
// Launch: row_scan, grid (m), block (128)
// Assumes: m >= 0; n >= 0; b overlaps no other array
// Indices have 32 bits: m*n, n + 1027 must not exceed 2147483647

// The sum of x over the 128 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float row_scan_block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 4; ++n)
        x += partial[n];
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

extern "C" __global__ void __launch_bounds__(128) row_scan(
    const float *__restrict__ a,
    float *__restrict__ b,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[4];
    __shared__ float partial_0[4];
    float acc_0 = 0.0f;
    // Full tiles, without tests; the others begin at tile_full.
    const int tile_full = n / 512;
    float thread_sum;
    for (int tile = 0; tile < tile_full; ++tile) {
        float tile_sum = 0.0f;
        for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer)
            tile_sum += a[bx * n + 512 * tile + 128 * j_inner_outer + tx];
        tile_sum = row_scan_block_sum_float32(tile_sum, partial);
        float before_thread = acc_0;
        acc_0 += tile_sum;
        thread_sum = 0.0f;
        for (int j_local_inner = 0; j_local_inner < 4; ++j_local_inner)
            thread_sum += a[bx * n + 512 * tile + 4 * tx + j_local_inner];
        float part = thread_sum;
        part = row_scan_block_exclusive_sum_float32(part, partial_0);
        before_thread += part;
        for (int k = 0; k < 4; ++k) {
            const int i = 512 * tile + 4 * tx + k;
            before_thread += a[bx * n + i];
            b[bx * n + i] = before_thread;
        }
    }
    for (int tile = tile_full; tile < (n + 511) / 512; ++tile) {
        float tile_sum = 0.0f;
        for (int j_inner_outer = 0;
                j_inner_outer < min(4, (n - tx + 127) / 128 - 4 * tile);
                ++j_inner_outer)
            tile_sum += a[bx * n + 512 * tile + 128 * j_inner_outer + tx];
        tile_sum = row_scan_block_sum_float32(tile_sum, partial);
        float before_thread = acc_0;
        acc_0 += tile_sum;
        const int a_index = 512 * tile + 4 * tx;
        if (a_index < n)
            thread_sum = 0.0f;
        for (int j_local_inner = 0;
                j_local_inner < min(4, n - 512 * tile - 4 * tx);
                ++j_local_inner)
            thread_sum += a[bx * n + a_index + j_local_inner];
        float part = 0.0f;
        if (a_index < n)
            part += thread_sum;
        part = row_scan_block_exclusive_sum_float32(part, partial_0);
        if (a_index < n)
            before_thread += part;
        for (int k = 0; k < min(4, n - 512 * tile - 4 * tx); ++k) {
            const int i = a_index + k;
            before_thread += a[bx * n + i];
            b[bx * n + i] = before_thread;
        }
    }
}
