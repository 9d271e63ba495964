// prefix_sum_single_pass computes
//     for m in [0, n)
//         x[m] = a[m]
//     for i in [0, n)
//         b[i] = sum(j, x[j]), j in [0, i + 1)
// Sizes: a: n, b: n
// Launch: prefix_sum_single_pass_clear, grid (((n + 8191) / 8192 + 255) / 256), block (256)
// Launch: prefix_sum_single_pass, grid ((n + 8191) / 8192), block (32, 4)
// Assumes: n >= 0; a is aligned to 16 bytes; b is aligned to 16 bytes; b overlaps no other array
// Indices have 32 bits: n, 256*(((n + 8191) / 8192 + 255) / 256),
//     n + 18563 must not exceed 2147483647

// The sum of x over the 128 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float prefix_sum_single_pass_block_sum_float32(
    float x,
    float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x == 0)
        partial[threadIdx.y] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 4; ++n)
        x += partial[n];
    return x;
}
// Publishes the x of this block for the blocks after it; every block calls it.
// totals: of each block 0, or a value and above it 1, if that is the block's own x, or 2, if it is
// that of
// all blocks up to it.
static __device__ __forceinline__ void prefix_sum_single_pass_store_float32(
    float x,
    int block,
    volatile unsigned long long *totals)
{
    if (threadIdx.x == 0 && threadIdx.y == 0 && block > 0)
        totals[block] = 1ull << 32 | __float_as_uint(x);
}
// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ float prefix_sum_single_pass_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}
// The sum of x over the threads before this one along threadIdx.y; the whole block calls it.
static __device__ __forceinline__ float prefix_sum_single_pass_y_exclusive_sum_float32(
    float x,
    float *partial)
{
    partial[4 * threadIdx.x + threadIdx.y] = x;
    __syncthreads();  // the part of each warp is there
    float before = 0.0f;
    for (int n = 0; n < threadIdx.y; ++n)
        before += partial[4 * threadIdx.x + n];
    return before;
}
// The sum of x over the threads before this one along threadIdx.x; the whole block calls it.
static __device__ __forceinline__ float prefix_sum_single_pass_x_exclusive_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const float y = __shfl_up_sync(0xffffffff, x, step);
        if (threadIdx.x >= step)
            x = y + x;
    }
    const float y = __shfl_up_sync(0xffffffff, x, 1);
    return threadIdx.x == 0 ? 0.0f : y;
}
// The sum of x over the blocks before this one; every block calls it, and has stored its own x.
static __device__ __forceinline__ float prefix_sum_single_pass_grid_exclusive_sum_float32(
    float x,
    int block,
    volatile unsigned long long *totals,
    float *before)
{
    const int thread = threadIdx.x + 32 * threadIdx.y;
    if (thread < 32) {
        if (block > 0)
            __nanosleep(2000);  // meanwhile blocks before this one look back themselves
        float earlier = 0.0f;
        for (int last = block - 1; last >= 0; last -= 32) {
            const int other = last - thread;
            unsigned long long word;
            unsigned int whole, unknown;
            do {
                word = other < 0 ? 2ull << 32 : totals[other];
                whole = __ballot_sync(0xffffffff, word >> 32 == 2);
                unknown = __ballot_sync(0xffffffff, word >> 32 == 0);
            // all nearer than a block with the total of all
            } while (unknown & ~whole & (whole - 1));
            const int end = whole != 0 ? __ffs(whole) - 1 : 31;
            float y = __uint_as_float((unsigned int)word);
            #pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const float z = __shfl_down_sync(0xffffffff, y, step);
                if (thread + step <= end)
                    y = z + y;
            }
            earlier = y + earlier;
            if (whole != 0)
                break;
        }
        if (thread == 0) {
            const float all = earlier + x;
            totals[block] = 2ull << 32 | __float_as_uint(all);
            *before = earlier;
        }
    }
    __syncthreads();  // the value is there for all threads
    return *before;
}

// Resets the values that blocks pass on, and the number of the next block: before each run.
extern "C" __global__ void __launch_bounds__(256) prefix_sum_single_pass_clear(
    unsigned int *__restrict__ next_block,
    unsigned long long *__restrict__ totals)
{
    const unsigned int i = 256 * blockIdx.x + threadIdx.x;
    if (i == 0)
        next_block[0] = 0;
    totals[i] = 0;
}

extern "C" __global__ void __launch_bounds__(128) prefix_sum_single_pass(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    unsigned int *next_block,
    unsigned long long *totals)
{
    __shared__ unsigned int ticket;  // this block's number: those before it have begun
    if (threadIdx.x == 0 && threadIdx.y == 0)
        ticket = atomicAdd(next_block, 1);
    __syncthreads();  // the number is there for all threads
    const int bx = ticket;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float partial[4];
    __shared__ float before[1];
    __shared__ float partial_0[128];
    if (8192 * bx + 8191 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        __align__(16) float x[16][4];
        #pragma unroll
        for (int r_x = 0; r_x < 16; ++r_x)
            // load
            *(float4 *)&x[r_x][0] = *(const float4 *)&a[8192 * bx + 2048 * ty + 128 * r_x + 4 * tx];
        float tile_sum = 0.0f;
        #pragma unroll
        for (int r_tile = 0; r_tile < 16; ++r_tile) {
            #pragma unroll
            for (int k_tile = 0; k_tile < 4; ++k_tile)
                tile_sum += x[r_tile][k_tile];
        }
        tile_sum = prefix_sum_single_pass_block_sum_float32(tile_sum, partial);
        float before_tile = tile_sum;
        prefix_sum_single_pass_store_float32(before_tile, ticket, totals);
        float warp_sum = 0.0f;
        #pragma unroll
        for (int r_warp = 0; r_warp < 16; ++r_warp) {
            #pragma unroll
            for (int k_warp = 0; k_warp < 4; ++k_warp)
                warp_sum += x[r_warp][k_warp];
        }
        warp_sum = prefix_sum_single_pass_warp_sum_float32(warp_sum);
        float before_warp = warp_sum;
        before_warp = prefix_sum_single_pass_y_exclusive_sum_float32(before_warp, partial_0);
        float scanned[16][4];
        #pragma unroll
        for (int r = 0; r < 16; ++r) {
            float round_sum = 0.0f;
            #pragma unroll
            for (int k_round = 0; k_round < 4; ++k_round)
                round_sum += x[r][k_round];
            round_sum = prefix_sum_single_pass_warp_sum_float32(round_sum);
            float before_lane = before_warp;
            before_warp += round_sum;
            float lane_sum = 0.0f;
            #pragma unroll
            for (int j_local_local_local_inner = 0;
                    j_local_local_local_inner < 4;
                    ++j_local_local_local_inner)
                lane_sum += x[r][j_local_local_local_inner];
            float part_1 = lane_sum;
            part_1 = prefix_sum_single_pass_x_exclusive_sum_float32(part_1);
            before_lane += part_1;
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                before_lane += x[r][k];
                scanned[r][k] = before_lane;
            }
        }
        before_tile =
            prefix_sum_single_pass_grid_exclusive_sum_float32(before_tile, ticket, totals, before);
        #pragma unroll
        for (int r_b = 0; r_b < 16; ++r_b) {
            float4 b_v;
            b_v.x = before_tile + scanned[r_b][0];
            b_v.y = before_tile + scanned[r_b][1];
            b_v.z = before_tile + scanned[r_b][2];
            b_v.w = before_tile + scanned[r_b][3];
            *(float4 *)&b[8192 * bx + 2048 * ty + 128 * r_b + 4 * tx] = b_v;  // scan
        }
    } else {
        float tile_sum = 0.0f;
        __align__(16) float x[16][4];
        const int position = 8192 * bx + 2048 * ty;
        if (position + 4 * tx < n) {
            #pragma unroll
            for (int r_x = 0; r_x < 16; ++r_x) {
                const int a_index = position + 128 * r_x + 4 * tx;
                if (a_index + 3 < n) {
                    *(float4 *)&x[r_x][0] = *(const float4 *)&a[a_index];  // load
                } else {
                    #pragma unroll
                    for (int k_x = 0; k_x < 4; ++k_x) {
                        const int m = a_index + k_x;
                        if (m < n)
                            x[r_x][k_x] = a[m];  // load
                    }
                }
            }
            #pragma unroll
            for (int r_tile = 0; r_tile < 16; ++r_tile) {
                if (position + 128 * r_tile + 4 * tx < n) {
                    #pragma unroll
                    for (int k_tile = 0; k_tile < 4; ++k_tile) {
                        if (position + 128 * r_tile + 4 * tx + k_tile < n)
                            tile_sum += x[r_tile][k_tile];
                    }
                }
            }
        }
        tile_sum = prefix_sum_single_pass_block_sum_float32(tile_sum, partial);
        float before_tile = tile_sum;
        prefix_sum_single_pass_store_float32(before_tile, ticket, totals);
        float warp_sum = 0.0f;
        if (position + 4 * tx < n) {
            #pragma unroll
            for (int r_warp = 0; r_warp < 16; ++r_warp) {
                if (position + 128 * r_warp + 4 * tx < n) {
                    #pragma unroll
                    for (int k_warp = 0; k_warp < 4; ++k_warp) {
                        if (position + 128 * r_warp + 4 * tx + k_warp < n)
                            warp_sum += x[r_warp][k_warp];
                    }
                }
            }
        }
        warp_sum = prefix_sum_single_pass_warp_sum_float32(warp_sum);
        float before_warp = 0.0f;
        if (position < n)
            before_warp += warp_sum;
        before_warp = prefix_sum_single_pass_y_exclusive_sum_float32(before_warp, partial_0);
        float scanned[16][4];
        float before_lane;
        #pragma unroll
        for (int r = 0; r < 16; ++r) {
            if (8192 * bx + 128 * r < n) {
                float round_sum = 0.0f;
                if (position + 128 * r + 4 * tx < n) {
                    #pragma unroll
                    for (int k_round = 0; k_round < 4; ++k_round) {
                        if (position + 128 * r + 4 * tx + k_round < n)
                            round_sum += x[r][k_round];
                    }
                }
                round_sum = prefix_sum_single_pass_warp_sum_float32(round_sum);
                if (position + 128 * r < n) {
                    before_lane = before_warp;
                    before_warp += round_sum;
                }
                float part_1 = 0.0f;
                if (position + 128 * r + 4 * tx < n) {
                    float lane_sum = 0.0f;
                    #pragma unroll
                    for (int j_local_local_local_inner = 0;
                            j_local_local_local_inner < 4;
                            ++j_local_local_local_inner) {
                        if (position + 128 * r + 4 * tx + j_local_local_local_inner < n)
                            lane_sum += x[r][j_local_local_local_inner];
                    }
                    part_1 += lane_sum;
                }
                part_1 = prefix_sum_single_pass_x_exclusive_sum_float32(part_1);
                if (position + 128 * r + 4 * tx < n) {
                    before_lane += part_1;
                    #pragma unroll
                    for (int k = 0; k < 4; ++k) {
                        if (position + 128 * r + 4 * tx + k < n) {
                            before_lane += x[r][k];
                            scanned[r][k] = before_lane;
                        }
                    }
                }
            }
        }
        before_tile =
            prefix_sum_single_pass_grid_exclusive_sum_float32(before_tile, ticket, totals, before);
        if (position + 4 * tx < n) {
            #pragma unroll
            for (int r_b = 0; r_b < 16; ++r_b) {
                const int b_index = position + 128 * r_b + 4 * tx;
                if (b_index + 3 < n) {
                    float4 b_v;
                    b_v.x = before_tile + scanned[r_b][0];
                    b_v.y = before_tile + scanned[r_b][1];
                    b_v.z = before_tile + scanned[r_b][2];
                    b_v.w = before_tile + scanned[r_b][3];
                    *(float4 *)&b[b_index] = b_v;  // scan
                } else {
                    #pragma unroll
                    for (int k_b = 0; k_b < 4; ++k_b) {
                        const int i = b_index + k_b;
                        if (i < n)
                            b[i] = before_tile + scanned[r_b][k_b];  // scan
                    }
                }
            }
        }
    }
}
