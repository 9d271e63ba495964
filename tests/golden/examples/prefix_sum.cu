// prefix_sum computes
//     for i in [0, n)
//         b[i] = sum(j, a[j]), j in [0, i + 1)
// Sizes: a: n, b: n
// Launch: prefix_sum_0, grid ((n + 2047) / 2048), block (256)
// Launch: prefix_sum_1, grid (1), block (256)
// Launch: prefix_sum_2, grid ((n + 2047) / 2048), block (256)
// Assumes: n >= 0; a is aligned to 16 bytes; b is aligned to 16 bytes; b overlaps no other array
// Indices have 32 bits: n, (n + 2047) / 2048, n + 8388607 must not exceed 2147483647

#ifndef POLYLOOP_FLOAT32X8
#define POLYLOOP_FLOAT32X8
struct __align__(16) float32x8 { float e[8]; };
#endif

// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float prefix_sum_block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x += partial[n];
    return x;
}
// The sum of x over the threads of the block before this one; the whole block calls it.
static __device__ __forceinline__ float prefix_sum_block_exclusive_sum_float32(
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

extern "C" __global__ void __launch_bounds__(256) prefix_sum_0(
    const float *__restrict__ a,
    int n,
    float *__restrict__ tile_sum)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[8];
    if (2048 * bx + 2047 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        for (int j_inner_outer = 0; j_inner_outer < 8; ++j_inner_outer)
            acc += a[2048 * bx + 256 * j_inner_outer + tx];
        acc = prefix_sum_block_sum_float32(acc, partial);
        if (tx == 0)
            tile_sum[bx] = acc;
    } else {
        float acc = 0.0f;
        for (int j_inner_outer = 0;
                j_inner_outer < min(8, (n - tx + 255) / 256 - 8 * bx);
                ++j_inner_outer)
            acc += a[2048 * bx + 256 * j_inner_outer + tx];
        acc = prefix_sum_block_sum_float32(acc, partial);
        if (tx == 0)
            tile_sum[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(256) prefix_sum_1(
    int n,
    const float *__restrict__ tile_sum,
    float *__restrict__ before_tile)
{
    const int tx = threadIdx.x;
    __shared__ float partial_0[8];
    __shared__ float partial_1[8];
    float acc_1 = 0.0f;
    // Full tiles, without tests; the others begin at chunk_full.
    const int chunk_full = (n + 2047) / 4194304;
    float eight_tiles;
    for (int chunk = 0; chunk < chunk_full; ++chunk) {
        float chunk_sum = 0.0f;
        for (int j_outer_inner_outer = 0; j_outer_inner_outer < 8; ++j_outer_inner_outer)
            chunk_sum += tile_sum[2048 * chunk + 256 * j_outer_inner_outer + tx];
        chunk_sum = prefix_sum_block_sum_float32(chunk_sum, partial_0);
        float before_eight = acc_1;
        acc_1 += chunk_sum;
        eight_tiles = 0.0f;
        for (int j_outer_local_inner = 0; j_outer_local_inner < 8; ++j_outer_local_inner)
            eight_tiles += tile_sum[2048 * chunk + 8 * tx + j_outer_local_inner];
        float part = eight_tiles;
        part = prefix_sum_block_exclusive_sum_float32(part, partial_1);
        before_eight += part;
        for (int m = 0; m < 8; ++m) {
            before_tile[2048 * chunk + 8 * tx + m] = before_eight;
            before_eight += tile_sum[2048 * chunk + 8 * tx + m];
        }
    }
    for (int chunk = chunk_full; chunk < (n + 4194303) / 4194304; ++chunk) {
        float chunk_sum = 0.0f;
        for (int j_outer_inner_outer = 0;
                j_outer_inner_outer < min(8, (n - 2048 * tx + 524287) / 524288 - 8 * chunk);
                ++j_outer_inner_outer)
            chunk_sum += tile_sum[2048 * chunk + 256 * j_outer_inner_outer + tx];
        chunk_sum = prefix_sum_block_sum_float32(chunk_sum, partial_0);
        float before_eight = acc_1;
        acc_1 += chunk_sum;
        if (4194304 * chunk + 16384 * tx < n)
            eight_tiles = 0.0f;
        for (int j_outer_local_inner = 0;
                j_outer_local_inner < min(8, (n + 2047) / 2048 - 2048 * chunk - 8 * tx);
                ++j_outer_local_inner)
            eight_tiles += tile_sum[2048 * chunk + 8 * tx + j_outer_local_inner];
        float part = 0.0f;
        if (4194304 * chunk + 16384 * tx < n)
            part += eight_tiles;
        part = prefix_sum_block_exclusive_sum_float32(part, partial_1);
        if (4194304 * chunk + 16384 * tx < n)
            before_eight += part;
        for (int m = 0; m < min(8, (n + 2047) / 2048 - 2048 * chunk - 8 * tx); ++m) {
            before_tile[2048 * chunk + 8 * tx + m] = before_eight;
            before_eight += tile_sum[2048 * chunk + 8 * tx + m];
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) prefix_sum_2(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    const float *__restrict__ before_tile)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial_2[8];
    if (2048 * bx + 2047 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        __align__(16) float eight[8];
        const int offset = 2048 * bx + 8 * tx;
        *(float32x8 *)&eight[0] = *(const float32x8 *)&a[offset];
        float thread_sum = 0.0f;
        for (int j_local_inner = 0; j_local_inner < 8; ++j_local_inner)
            thread_sum += eight[j_local_inner];
        float part_0 = thread_sum;
        part_0 = prefix_sum_block_exclusive_sum_float32(part_0, partial_2);
        float before_thread = before_tile[bx];
        before_thread += part_0;
        __align__(16) float b_buf[8];
        for (int k = 0; k < 8; ++k) {
            before_thread += a[offset + k];
            b_buf[k] = before_thread;
        }
        *(float32x8 *)&b[offset] = *(const float32x8 *)&b_buf[0];
    } else {
        __align__(16) float eight[8];
        const int position = 2048 * bx + 8 * tx;
        if (position + 7 < n) {
            *(float32x8 *)&eight[0] = *(const float32x8 *)&a[position];
        } else {
            #pragma unroll
            for (int a_dim_0 = 0; a_dim_0 < 8; ++a_dim_0) {
                if (position + a_dim_0 < n)
                    eight[a_dim_0] = a[position + a_dim_0];
            }
        }
        float thread_sum = 0.0f;
        for (int j_local_inner = 0; j_local_inner < min(8, n - 2048 * bx - 8 * tx); ++j_local_inner)
            thread_sum += eight[j_local_inner];
        float part_0 = 0.0f;
        if (position < n)
            part_0 += thread_sum;
        part_0 = prefix_sum_block_exclusive_sum_float32(part_0, partial_2);
        float before_thread;
        if (position < n) {
            before_thread = before_tile[bx];
            before_thread += part_0;
        }
        __align__(16) float b_buf[8];
        for (int k = 0; k < min(8, n - 2048 * bx - 8 * tx); ++k) {
            before_thread += a[position + k];
            b_buf[k] = before_thread;
        }
        if (position + 7 < n) {
            *(float32x8 *)&b[position] = *(const float32x8 *)&b_buf[0];
        } else {
            #pragma unroll
            for (int b_buf_store_0 = 0; b_buf_store_0 < 8; ++b_buf_store_0) {
                if (position + b_buf_store_0 < n)
                    b[position + b_buf_store_0] = b_buf[b_buf_store_0];
            }
        }
    }
}
