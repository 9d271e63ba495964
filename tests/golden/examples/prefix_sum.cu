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
    __syncthreads();
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x += partial[n];
    return x;
}
// The sum of x over the threads of the block before this one; the whole block calls it.
static __device__ __forceinline__ float prefix_sum_block_exclusive_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const float y = __shfl_up_sync(0xffffffff, x, step);
        if (threadIdx.x % 32 >= step)
            x = y + x;
    }
    if (threadIdx.x % 32 == 31)
        partial[threadIdx.x / 32] = x;
    __syncthreads();
    float before = 0.0f;
    for (int n = 0; n < threadIdx.x / 32; ++n)
        before += partial[n];
    const float y = __shfl_up_sync(0xffffffff, x, 1);
    return threadIdx.x % 32 == 0 ? before : before + y;
}

extern "C" __global__ void __launch_bounds__(256) prefix_sum_0(const float *__restrict__ a, int n, float *__restrict__ tile_sum)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[8];
    if (2048 * bx + 2047 < n) {
        float acc = 0.0f;
        for (int j_inner_outer = 0; j_inner_outer < 8; ++j_inner_outer)
            acc += a[2048 * bx + 256 * j_inner_outer + tx];
        acc = prefix_sum_block_sum_float32(acc, partial);
        if (tx == 0)
            tile_sum[bx] = acc;
    } else {
        float acc = 0.0f;
        for (int j_inner_outer = 0; j_inner_outer < min(8, (n - tx + 255) / 256 - 8 * bx); ++j_inner_outer)
            acc += a[2048 * bx + 256 * j_inner_outer + tx];
        acc = prefix_sum_block_sum_float32(acc, partial);
        if (tx == 0)
            tile_sum[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(256) prefix_sum_1(int n, const float *__restrict__ tile_sum, float *__restrict__ before_tile)
{
    const int tx = threadIdx.x;
    __shared__ float partial_0[8];
    __shared__ float partial_1[8];
    float acc_1 = 0.0f;  // before_chunk
    const int chunk_full = (n + 2047) / 4194304;
    float eight_tiles;
    for (int chunk = 0; chunk < chunk_full; ++chunk) {
        float chunk_sum = 0.0f;  // chunk_sum
        for (int j_outer_inner_outer = 0; j_outer_inner_outer < 8; ++j_outer_inner_outer)
            chunk_sum += tile_sum[2048 * chunk + 256 * j_outer_inner_outer + tx];  // chunk_sum
        chunk_sum = prefix_sum_block_sum_float32(chunk_sum, partial_0);  // chunk_sum
        float before_eight = acc_1;  // before_chunk
        acc_1 += chunk_sum;  // before_chunk
        eight_tiles = 0.0f;  // eight_tiles
        for (int j_outer_local_inner = 0; j_outer_local_inner < 8; ++j_outer_local_inner)
            eight_tiles += tile_sum[2048 * chunk + 8 * tx + j_outer_local_inner];  // eight_tiles
        float part = eight_tiles;  // before_eight
        part = prefix_sum_block_exclusive_sum_float32(part, partial_1);  // before_eight
        before_eight += part;  // before_eight
        for (int m = 0; m < 8; ++m) {
            before_tile[2048 * chunk + 8 * tx + m] = before_eight;  // before_tile
            before_eight += tile_sum[2048 * chunk + 8 * tx + m];  // before_tile
        }
    }
    for (int chunk = chunk_full; chunk < (n + 4194303) / 4194304; ++chunk) {
        float chunk_sum = 0.0f;  // chunk_sum
        for (int j_outer_inner_outer = 0; j_outer_inner_outer < min(8, (n - 2048 * tx + 524287) / 524288 - 8 * chunk); ++j_outer_inner_outer)
            chunk_sum += tile_sum[2048 * chunk + 256 * j_outer_inner_outer + tx];  // chunk_sum
        chunk_sum = prefix_sum_block_sum_float32(chunk_sum, partial_0);  // chunk_sum
        float before_eight = acc_1;  // before_chunk
        acc_1 += chunk_sum;  // before_chunk
        if (4194304 * chunk + 16384 * tx < n)
            eight_tiles = 0.0f;  // eight_tiles
        for (int j_outer_local_inner = 0; j_outer_local_inner < min(8, (n + 2047) / 2048 - 2048 * chunk - 8 * tx); ++j_outer_local_inner)
            eight_tiles += tile_sum[2048 * chunk + 8 * tx + j_outer_local_inner];  // eight_tiles
        float part = 0.0f;  // before_eight
        if (4194304 * chunk + 16384 * tx < n)
            part += eight_tiles;  // before_eight
        part = prefix_sum_block_exclusive_sum_float32(part, partial_1);  // before_eight
        if (4194304 * chunk + 16384 * tx < n)
            before_eight += part;  // before_eight
        for (int m = 0; m < min(8, (n + 2047) / 2048 - 2048 * chunk - 8 * tx); ++m) {
            before_tile[2048 * chunk + 8 * tx + m] = before_eight;  // before_tile
            before_eight += tile_sum[2048 * chunk + 8 * tx + m];  // before_tile
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) prefix_sum_2(const float *__restrict__ a, float *__restrict__ b, int n, const float *__restrict__ before_tile)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial_2[8];
    if (2048 * bx + 2047 < n) {
        __align__(16) float eight[8];
        *(float32x8 *)&eight[0] = *(const float32x8 *)&a[2048 * bx + 8 * tx];  // fetch_a
        float thread_sum = 0.0f;  // thread_sum
        for (int j_local_inner = 0; j_local_inner < 8; ++j_local_inner)
            thread_sum += eight[j_local_inner];  // thread_sum
        float part_0 = thread_sum;  // before_thread
        part_0 = prefix_sum_block_exclusive_sum_float32(part_0, partial_2);  // before_thread
        float before_thread = before_tile[bx];  // before_thread
        before_thread += part_0;  // before_thread
        __align__(16) float b_buf[8];
        for (int k = 0; k < 8; ++k) {
            before_thread += a[2048 * bx + 8 * tx + k];  // insn
            b_buf[k] = before_thread;  // insn
        }
        *(float32x8 *)&b[2048 * bx + 8 * tx] = *(const float32x8 *)&b_buf[0];  // store_b_buf
    } else {
        __align__(16) float eight[8];
        if (2048 * bx + 8 * tx + 7 < n) {
            *(float32x8 *)&eight[0] = *(const float32x8 *)&a[2048 * bx + 8 * tx];  // fetch_a
        } else {
            #pragma unroll
            for (int a_dim_0 = 0; a_dim_0 < 8; ++a_dim_0) {
                if (2048 * bx + 8 * tx + a_dim_0 < n)
                    eight[a_dim_0] = a[2048 * bx + 8 * tx + a_dim_0];  // fetch_a
            }
        }
        float thread_sum = 0.0f;  // thread_sum
        for (int j_local_inner = 0; j_local_inner < min(8, n - 2048 * bx - 8 * tx); ++j_local_inner)
            thread_sum += eight[j_local_inner];  // thread_sum
        float part_0 = 0.0f;  // before_thread
        if (2048 * bx + 8 * tx < n)
            part_0 += thread_sum;  // before_thread
        part_0 = prefix_sum_block_exclusive_sum_float32(part_0, partial_2);  // before_thread
        float before_thread;
        if (2048 * bx + 8 * tx < n) {
            before_thread = before_tile[bx];  // before_thread
            before_thread += part_0;  // before_thread
        }
        __align__(16) float b_buf[8];
        for (int k = 0; k < min(8, n - 2048 * bx - 8 * tx); ++k) {
            before_thread += a[2048 * bx + 8 * tx + k];  // insn
            b_buf[k] = before_thread;  // insn
        }
        if (2048 * bx + 8 * tx + 7 < n) {
            *(float32x8 *)&b[2048 * bx + 8 * tx] = *(const float32x8 *)&b_buf[0];  // store_b_buf
        } else {
            #pragma unroll
            for (int b_buf_store_0 = 0; b_buf_store_0 < 8; ++b_buf_store_0) {
                if (2048 * bx + 8 * tx + b_buf_store_0 < n)
                    b[2048 * bx + 8 * tx + b_buf_store_0] = b_buf[b_buf_store_0];  // store_b_buf
            }
        }
    }
}
