// compaction_by_blocks computes
//     for i in [0, n)
//         place[i] = sum(j, if(x[j] > 0, 1, 0)), j in [0, i)
//     for k in [0, n)
//         out[place[k]] = x[k] if x[k] > 0
// Sizes: x: n, out: n
// Launch: compaction_by_blocks_clear, grid (((n + 63) / 64 + 255) / 256), block (256)
// Launch: compaction_by_blocks, grid ((n + 63) / 64), block (64)
// Assumes: n >= 0; out overlaps no other array
// Indices have 32 bits: n, 256*(((n + 63) / 64 + 255) / 256), n + 127 must not exceed 2147483647

// The sum of x over the 64 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ int compaction_by_blocks_block_sum_int32(int x, int *partial)
{
    x = __reduce_add_sync(0xffffffff, x);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    x += (unsigned int)partial[1];
    return x;
}
// Publishes the x of this block for the blocks after it; every block calls it.
// totals: of each block 0, or a value and above it 1, if that is the block's own x, or 2, if it is
// that of
// all blocks up to it.
static __device__ __forceinline__ void compaction_by_blocks_store_int32(
    int x,
    int block,
    volatile unsigned long long *totals)
{
    if (threadIdx.x == 0 && block > 0)
        totals[block] = 1ull << 32 | (unsigned int)x;
}
// The sum of x over the threads of the block before this one; the whole block calls it.
static __device__ __forceinline__ int compaction_by_blocks_block_exclusive_sum_int32(
    int x,
    int *partial)
{
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const int y = __shfl_up_sync(0xffffffff, x, step);
        if (threadIdx.x % 32 >= step)
            x = y + (unsigned int)x;
    }
    if (threadIdx.x % 32 == 31)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    int before = 0;
    for (int n = 0; n < threadIdx.x / 32; ++n)
        before += (unsigned int)partial[n];
    const int y = __shfl_up_sync(0xffffffff, x, 1);
    return threadIdx.x % 32 == 0 ? before : before + (unsigned int)y;
}
// The sum of x over the blocks before this one; every block calls it, and has stored its own x.
static __device__ __forceinline__ int compaction_by_blocks_grid_exclusive_sum_int32(
    int x,
    int block,
    volatile unsigned long long *totals,
    int *before)
{
    if (threadIdx.x < 32) {
        if (block > 0)
            __nanosleep(2000);  // meanwhile blocks before this one look back themselves
        int earlier = 0;
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
            int y = (int)word;
            #pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const int z = __shfl_down_sync(0xffffffff, y, step);
                if (threadIdx.x + step <= end)
                    y = z + (unsigned int)y;
            }
            earlier = y + (unsigned int)earlier;
            if (whole != 0)
                break;
        }
        if (threadIdx.x == 0) {
            const int all = earlier + (unsigned int)x;
            totals[block] = 2ull << 32 | (unsigned int)all;
            *before = earlier;
        }
    }
    __syncthreads();  // the value is there for all threads
    return *before;
}

// Resets the values that blocks pass on, and the number of the next block: before each run.
extern "C" __global__ void __launch_bounds__(256) compaction_by_blocks_clear(
    unsigned int *__restrict__ next_block,
    unsigned long long *__restrict__ totals)
{
    const unsigned int i = 256 * blockIdx.x + threadIdx.x;
    if (i == 0)
        next_block[0] = 0;
    totals[i] = 0;
}

extern "C" __global__ void __launch_bounds__(64) compaction_by_blocks(
    const float *__restrict__ x,
    float *__restrict__ out,
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
    const int i = 64 * bx + tx;
    __shared__ int partial[2];
    __shared__ int before[1];
    __shared__ int partial_0[2];
    int place_sum = 0;
    if (i < n)
        place_sum += (unsigned int)(x[i] > 0.0f ? 1 : 0);
    place_sum = compaction_by_blocks_block_sum_int32(place_sum, partial);
    int place_carry = (unsigned int)place_sum;
    compaction_by_blocks_store_int32(place_carry, ticket, totals);
    int part_0 = 0;
    if (i < n)
        part_0 += (unsigned int)(x[i] > 0.0f ? 1 : 0);
    part_0 = compaction_by_blocks_block_exclusive_sum_int32(part_0, partial_0);
    place_carry =
        compaction_by_blocks_grid_exclusive_sum_int32(place_carry, ticket, totals, before);
    if (i < n) {
        place_carry += (unsigned int)part_0;
        if (x[i] > 0.0f)
            out[place_carry] = x[i];  // store
    }
}
