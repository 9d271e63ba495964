// prefix computes
//     for i in [0, n)
//         b[i] = sum(j, a[j]), j in [0, i + 1)
// Sizes: a: n, b: n
// Launch: prefix_clear, grid (((n + 255) / 256 + 255) / 256), block (256)
// Launch: prefix, grid ((n + 255) / 256), block (64)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, 256*(((n + 255) / 256 + 255) / 256), n + 515 must not exceed 2147483647

// The sum of x over the 64 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float prefix_block_sum_float32(float x, float *partial)
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
// Publishes the x of this block for the blocks after it; every block calls it.
// totals: of each block 0, or a value and above it 1, if that is the block's own x, or 2, if it is
// that of
// all blocks up to it.
static __device__ __forceinline__ void prefix_store_float32(
    float x,
    int block,
    volatile unsigned long long *totals)
{
    if (threadIdx.x == 0 && block > 0)
        totals[block] = 1ull << 32 | __float_as_uint(x);
}
// The sum of x over the threads of the block before this one; the whole block calls it.
static __device__ __forceinline__ float prefix_block_exclusive_sum_float32(float x, float *partial)
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
// The sum of x over the blocks before this one; every block calls it, and has stored its own x.
static __device__ __forceinline__ float prefix_grid_exclusive_sum_float32(
    float x,
    int block,
    volatile unsigned long long *totals,
    float *before)
{
    if (threadIdx.x < 32) {
        if (block > 0)
            __nanosleep(2000);  // meanwhile blocks before this one look back themselves
        float earlier = 0.0f;
        for (int last = block - 1; last >= 0; last -= 32) {
            const int other = last - threadIdx.x;
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
                if (threadIdx.x + step <= end)
                    y = z + y;
            }
            earlier = y + earlier;
            if (whole != 0)
                break;
        }
        if (threadIdx.x == 0) {
            const float all = earlier + x;
            totals[block] = 2ull << 32 | __float_as_uint(all);
            *before = earlier;
        }
    }
    __syncthreads();  // the value is there for all threads
    return *before;
}

// Resets the values that blocks pass on, and the number of the next block: before each run.
extern "C" __global__ void __launch_bounds__(256) prefix_clear(
    unsigned int *__restrict__ next_block,
    unsigned long long *__restrict__ totals)
{
    const unsigned int i = 256 * blockIdx.x + threadIdx.x;
    if (i == 0)
        next_block[0] = 0;
    totals[i] = 0;
}

extern "C" __global__ void __launch_bounds__(64) prefix(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    unsigned int *next_block,
    unsigned long long *totals)
{
    __shared__ unsigned int ticket;  // this block's number: those before it have begun
    if (threadIdx.x == 0)
        ticket = atomicAdd(next_block, 1);
    __syncthreads();  // the number is there for all threads
    const int bx = ticket;
    const int tx = threadIdx.x;
    __shared__ float partial[2];
    __shared__ float before[1];
    __shared__ float partial_0[2];
    if (256 * bx + 255 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float tile_sum = 0.0f;
        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner)
            tile_sum += a[256 * bx + 4 * tx + j_inner_inner];
        tile_sum = prefix_block_sum_float32(tile_sum, partial);
        float before_tile = tile_sum;
        prefix_store_float32(before_tile, ticket, totals);
        float thread_sum = 0.0f;
        for (int j_local_inner = 0; j_local_inner < 4; ++j_local_inner)
            thread_sum += a[256 * bx + 4 * tx + j_local_inner];
        float before_thread = thread_sum;
        before_thread = prefix_block_exclusive_sum_float32(before_thread, partial_0);
        float local[4];
        for (int e_inner = 0; e_inner < 4; ++e_inner) {
            before_thread += a[256 * bx + 4 * tx + e_inner];
            local[e_inner] = before_thread;
        }
        before_tile = prefix_grid_exclusive_sum_float32(before_tile, ticket, totals, before);
        for (int q = 0; q < 4; ++q)
            b[256 * bx + 4 * tx + q] = before_tile + local[q];
    } else {
        float tile_sum = 0.0f;
        for (int j_inner_inner = 0; j_inner_inner < min(4, n - 256 * bx - 4 * tx); ++j_inner_inner)
            tile_sum += a[256 * bx + 4 * tx + j_inner_inner];
        tile_sum = prefix_block_sum_float32(tile_sum, partial);
        float before_tile = tile_sum;
        prefix_store_float32(before_tile, ticket, totals);
        float thread_sum = 0.0f;
        for (int j_local_inner = 0; j_local_inner < min(4, n - 256 * bx - 4 * tx); ++j_local_inner)
            thread_sum += a[256 * bx + 4 * tx + j_local_inner];
        float before_thread = 0.0f;
        const int position = 256 * bx + 4 * tx;
        if (position < n)
            before_thread += thread_sum;
        before_thread = prefix_block_exclusive_sum_float32(before_thread, partial_0);
        float local[4];
        for (int e_inner = 0; e_inner < min(4, n - 256 * bx - 4 * tx); ++e_inner) {
            before_thread += a[position + e_inner];
            local[e_inner] = before_thread;
        }
        before_tile = prefix_grid_exclusive_sum_float32(before_tile, ticket, totals, before);
        for (int q = 0; q < min(4, n - 256 * bx - 4 * tx); ++q)
            b[position + q] = before_tile + local[q];
    }
}
