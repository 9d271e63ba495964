// The sum of x over the 512 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[threadIdx.x % 16];
    #pragma unroll
    for (int step = 1; step <= 8; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}
// The sum of x over the threads of the block before this one; the whole block calls it.
static __device__ __forceinline__ float block_exclusive_sum_float32(float x, float *partial)
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

extern "C" __global__ void __launch_bounds__(512) prefix_sum_0(const float *__restrict__ a, int n, float *__restrict__ tile_sum)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[16];
    if (2048 * bx + 2047 < n) {
        float acc = 0.0f;
        for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer)
            acc += a[2048 * bx + 512 * j_inner_outer + tx];
        acc = block_sum_float32(acc, partial);
        if (tx == 0)
            tile_sum[bx] = acc;
    } else {
        float acc = 0.0f;
        for (int j_inner_outer = 0; j_inner_outer < min((n - tx + 511) / 512 - 4 * bx, 4); ++j_inner_outer)
            acc += a[2048 * bx + 512 * j_inner_outer + tx];
        acc = block_sum_float32(acc, partial);
        if (tx == 0)
            tile_sum[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(512) prefix_sum_1(int n, const float *__restrict__ tile_sum, float *__restrict__ before_tile)
{
    const int tx = threadIdx.x;
    __shared__ float partial_0[16];
    __shared__ float partial_1[16];
    float acc_1 = 0.0f;  // before_chunk
    const int chunk_full = (n + 2047) / 4194304;
    float four_tiles;
    for (int chunk = 0; chunk < chunk_full; ++chunk) {
        float chunk_sum = 0.0f;  // chunk_sum
        for (int j_outer_inner_outer = 0; j_outer_inner_outer < 4; ++j_outer_inner_outer)
            chunk_sum += tile_sum[2048 * chunk + 512 * j_outer_inner_outer + tx];  // chunk_sum
        chunk_sum = block_sum_float32(chunk_sum, partial_0);  // chunk_sum
        float before_four = acc_1;  // before_chunk
        acc_1 += chunk_sum;  // before_chunk
        four_tiles = 0.0f;  // four_tiles
        for (int j_outer_local_inner = 0; j_outer_local_inner < 4; ++j_outer_local_inner)
            four_tiles += tile_sum[2048 * chunk + 4 * tx + j_outer_local_inner];  // four_tiles
        float part = 0.0f;  // before_four
        part += four_tiles;  // before_four
        part = block_exclusive_sum_float32(part, partial_1);  // before_four
        before_four += part;  // before_four
        for (int m = 0; m < 4; ++m) {
            before_tile[2048 * chunk + 4 * tx + m] = before_four;  // before_tile
            before_four += tile_sum[2048 * chunk + 4 * tx + m];  // before_tile
        }
    }
    for (int chunk = chunk_full; chunk < (n + 4194303) / 4194304; ++chunk) {
        float chunk_sum = 0.0f;  // chunk_sum
        for (int j_outer_inner_outer = 0; j_outer_inner_outer < min((n - 2048 * tx + 1048575) / 1048576 - 4 * chunk, 4); ++j_outer_inner_outer)
            chunk_sum += tile_sum[2048 * chunk + 512 * j_outer_inner_outer + tx];  // chunk_sum
        chunk_sum = block_sum_float32(chunk_sum, partial_0);  // chunk_sum
        float before_four = acc_1;  // before_chunk
        acc_1 += chunk_sum;  // before_chunk
        if (4194304 * chunk + 8192 * tx < n)
            four_tiles = 0.0f;  // four_tiles
        for (int j_outer_local_inner = 0; j_outer_local_inner < min((n + 2047) / 2048 - 2048 * chunk - 4 * tx, 4); ++j_outer_local_inner)
            four_tiles += tile_sum[2048 * chunk + 4 * tx + j_outer_local_inner];  // four_tiles
        float part = 0.0f;  // before_four
        if (4194304 * chunk + 8192 * tx < n)
            part += four_tiles;  // before_four
        part = block_exclusive_sum_float32(part, partial_1);  // before_four
        if (4194304 * chunk + 8192 * tx < n)
            before_four += part;  // before_four
        for (int m = 0; m < min((n + 2047) / 2048 - 2048 * chunk - 4 * tx, 4); ++m) {
            before_tile[2048 * chunk + 4 * tx + m] = before_four;  // before_tile
            before_four += tile_sum[2048 * chunk + 4 * tx + m];  // before_tile
        }
    }
}

extern "C" __global__ void __launch_bounds__(512) prefix_sum_2(const float *__restrict__ a, float *__restrict__ b, int n, const float *__restrict__ before_tile)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial_2[16];
    if (2048 * bx + 2047 < n) {
        __align__(16) float four[4];
        *(float4 *)&four[0] = *(const float4 *)&a[2048 * bx + 4 * tx];  // fetch_a
        float thread_sum = 0.0f;  // thread_sum
        for (int j_local_inner = 0; j_local_inner < 4; ++j_local_inner)
            thread_sum += four[j_local_inner];  // thread_sum
        float part_0 = 0.0f;  // before_thread
        part_0 += thread_sum;  // before_thread
        part_0 = block_exclusive_sum_float32(part_0, partial_2);  // before_thread
        float before_thread = before_tile[bx];  // before_thread
        before_thread += part_0;  // before_thread
        __align__(16) float b_buf[4];
        for (int k = 0; k < 4; ++k) {
            before_thread += a[2048 * bx + 4 * tx + k];  // insn
            b_buf[k] = before_thread;  // insn
        }
        *(float4 *)&b[2048 * bx + 4 * tx] = *(const float4 *)&b_buf[0];  // store_b_buf
    } else {
        __align__(16) float four[4];
        if (2048 * bx + 4 * tx + 3 < n) {
            *(float4 *)&four[0] = *(const float4 *)&a[2048 * bx + 4 * tx];  // fetch_a
        } else {
            #pragma unroll
            for (int a_dim_0 = 0; a_dim_0 < 4; ++a_dim_0) {
                if (2048 * bx + 4 * tx + a_dim_0 < n)
                    four[a_dim_0] = a[2048 * bx + 4 * tx + a_dim_0];  // fetch_a
            }
        }
        float thread_sum = 0.0f;  // thread_sum
        for (int j_local_inner = 0; j_local_inner < min(4, n - 2048 * bx - 4 * tx); ++j_local_inner)
            thread_sum += four[j_local_inner];  // thread_sum
        float part_0 = 0.0f;  // before_thread
        if (2048 * bx + 4 * tx < n)
            part_0 += thread_sum;  // before_thread
        part_0 = block_exclusive_sum_float32(part_0, partial_2);  // before_thread
        float before_thread;
        if (2048 * bx + 4 * tx < n) {
            before_thread = before_tile[bx];  // before_thread
            before_thread += part_0;  // before_thread
        }
        __align__(16) float b_buf[4];
        for (int k = 0; k < min(4, n - 2048 * bx - 4 * tx); ++k) {
            before_thread += a[2048 * bx + 4 * tx + k];  // insn
            b_buf[k] = before_thread;  // insn
        }
        if (2048 * bx + 4 * tx + 3 < n) {
            *(float4 *)&b[2048 * bx + 4 * tx] = *(const float4 *)&b_buf[0];  // store_b_buf
        } else {
            #pragma unroll
            for (int b_buf_store_0 = 0; b_buf_store_0 < 4; ++b_buf_store_0) {
                if (2048 * bx + 4 * tx + b_buf_store_0 < n)
                    b[2048 * bx + 4 * tx + b_buf_store_0] = b_buf[b_buf_store_0];  // store_b_buf
            }
        }
    }
}
