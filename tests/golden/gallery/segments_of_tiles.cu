// segments_of_tiles computes
//     for i in [0, n)
//         b[i] = reduce(segmented(sum), j, x[j], starts[j]).value, j in [0, i + 1)
// Sizes: x: n, b: n, starts: n
// Launch: segments_of_tiles_clear, grid (((n + 31) / 32 + 255) / 256), block (256)
// Launch: segments_of_tiles, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, 256*(((n + 31) / 32 + 255) / 256), 512*(((n + 31) / 32 + 255) / 256),
//     n + 63 must not exceed 2147483647

typedef struct {
    float value;
    bool flag;
} segments_of_tiles_value_flag;
static_assert(
    sizeof(segments_of_tiles_value_flag) == 8,
    "segments_of_tiles_value_flag is not laid out as in NumPy");

static __device__ __forceinline__ segments_of_tiles_value_flag segments_of_tiles_make_value_flag(
    float value,
    bool flag)
{
    segments_of_tiles_value_flag result;
    result.value = value;
    result.flag = flag;
    return result;
}
static __device__ __forceinline__ segments_of_tiles_value_flag segments_of_tiles_segmented_sum(
    segments_of_tiles_value_flag a,
    segments_of_tiles_value_flag b)
{
    segments_of_tiles_value_flag result;
    result.value = b.flag ? b.value : a.value + b.value;
    result.flag = a.flag || b.flag;
    return result;
}
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ segments_of_tiles_value_flag
segments_of_tiles_exchanged_value_flag(
    segments_of_tiles_value_flag x,
    int step)
{
    x.value = __shfl_xor_sync(0xffffffff, x.value, step);
    x.flag = __shfl_xor_sync(0xffffffff, x.flag, step);
    return x;
}
// The segmented(sum) of x over the 32 threads of the block, on each of them; the whole block calls
// it.
static __device__ __forceinline__ segments_of_tiles_value_flag segments_of_tiles_warp_segmented_sum(
    segments_of_tiles_value_flag x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2) {
        const segments_of_tiles_value_flag y = segments_of_tiles_exchanged_value_flag(x, step);
        x = threadIdx.x & step
            ? segments_of_tiles_segmented_sum(y, x)
            : segments_of_tiles_segmented_sum(x, y);
    }
    return x;
}
// Publishes the x of this block for the blocks after it; every block calls it.
// known: of each block 0, or 1 if totals has its own x, or 2 if it has that of all blocks up to it,
// too.
static __device__ __forceinline__ void segments_of_tiles_store_segmented_sum(
    segments_of_tiles_value_flag x,
    int block,
    segments_of_tiles_value_flag *totals,
    volatile unsigned int *known)
{
    if (threadIdx.x == 0 && block > 0) {
        totals[2u * block] = x;
        __threadfence();
        known[block] = 1;
    }
}
// The value of the thread of the warp that is so many before this one.
static __device__ __forceinline__ segments_of_tiles_value_flag segments_of_tiles_above_value_flag(
    segments_of_tiles_value_flag x,
    int distance)
{
    x.value = __shfl_up_sync(0xffffffff, x.value, distance);
    x.flag = __shfl_up_sync(0xffffffff, x.flag, distance);
    return x;
}
// The segmented(sum) of x over the threads of the block up to this one; the whole block calls it.
static __device__ __forceinline__ segments_of_tiles_value_flag
segments_of_tiles_warp_inclusive_segmented_sum(
    segments_of_tiles_value_flag x)
{
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const segments_of_tiles_value_flag y = segments_of_tiles_above_value_flag(x, step);
        if (threadIdx.x >= step)
            x = segments_of_tiles_segmented_sum(y, x);
    }
    return x;
}
// The value of the thread of the warp that is so many after this one.
static __device__ __forceinline__ segments_of_tiles_value_flag segments_of_tiles_below_value_flag(
    segments_of_tiles_value_flag x,
    int distance)
{
    x.value = __shfl_down_sync(0xffffffff, x.value, distance);
    x.flag = __shfl_down_sync(0xffffffff, x.flag, distance);
    return x;
}
// The segmented(sum) of x over the blocks before this one; every block calls it, and has stored its
// own x.
static __device__ __forceinline__ segments_of_tiles_value_flag
segments_of_tiles_grid_exclusive_segmented_sum(
    segments_of_tiles_value_flag x,
    int block,
    segments_of_tiles_value_flag *totals,
    volatile unsigned int *known,
    segments_of_tiles_value_flag *before)
{
    if (threadIdx.x < 32) {
        if (block > 0)
            __nanosleep(2000);  // meanwhile blocks before this one look back themselves
        segments_of_tiles_value_flag earlier = segments_of_tiles_make_value_flag(0.0f, false);
        for (int last = block - 1; last >= 0; last -= 32) {
            const int other = last - threadIdx.x;
            unsigned int word;
            unsigned int whole, unknown;
            do {
                word = other < 0 ? 2 : known[other];
                whole = __ballot_sync(0xffffffff, word == 2);
                unknown = __ballot_sync(0xffffffff, word == 0);
            // all nearer than a block with the total of all
            } while (unknown & ~whole & (whole - 1));
            const int end = whole != 0 ? __ffs(whole) - 1 : 31;
            __threadfence();
            segments_of_tiles_value_flag y = segments_of_tiles_make_value_flag(0.0f, false);
            if (other >= 0 && threadIdx.x <= end)
                y = totals[2u * other + (word - 1)];
            #pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const segments_of_tiles_value_flag z = segments_of_tiles_below_value_flag(y, step);
                if (threadIdx.x + step <= end)
                    y = segments_of_tiles_segmented_sum(z, y);
            }
            earlier = segments_of_tiles_segmented_sum(y, earlier);
            if (whole != 0)
                break;
        }
        if (threadIdx.x == 0) {
            const segments_of_tiles_value_flag all = segments_of_tiles_segmented_sum(earlier, x);
            totals[2u * block + 1] = all;
            __threadfence();
            known[block] = 2;
            *before = earlier;
        }
    }
    __syncthreads();  // the value is there for all threads
    return *before;
}

// Resets the values that blocks pass on, and the number of the next block: before each run.
extern "C" __global__ void __launch_bounds__(256) segments_of_tiles_clear(
    unsigned int *__restrict__ next_block,
    unsigned int *__restrict__ totals_known)
{
    const unsigned int i = 256 * blockIdx.x + threadIdx.x;
    if (i == 0)
        next_block[0] = 0;
    totals_known[i] = 0;
}

extern "C" __global__ void __launch_bounds__(32) segments_of_tiles(
    const float *__restrict__ x,
    float *__restrict__ b,
    const bool *__restrict__ starts,
    int n,
    unsigned int *next_block,
    unsigned int *totals_known,
    segments_of_tiles_value_flag *totals)
{
    __shared__ unsigned int ticket;  // this block's number: those before it have begun
    if (threadIdx.x == 0)
        ticket = atomicAdd(next_block, 1);
    __syncthreads();  // the number is there for all threads
    const int bx = ticket;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    __shared__ segments_of_tiles_value_flag before[1];
    segments_of_tiles_value_flag b_sum = segments_of_tiles_make_value_flag(0.0f, false);
    if (i < n)
        b_sum = segments_of_tiles_segmented_sum(
            b_sum, segments_of_tiles_make_value_flag(x[i], starts[i]));
    b_sum = segments_of_tiles_warp_segmented_sum(b_sum);
    segments_of_tiles_value_flag b_carry = segments_of_tiles_make_value_flag(0.0f, false);
    b_carry = segments_of_tiles_segmented_sum(b_carry, b_sum);
    segments_of_tiles_store_segmented_sum(b_carry, ticket, totals, totals_known);
    segments_of_tiles_value_flag own = segments_of_tiles_make_value_flag(0.0f, false);
    if (i < n)
        own = segments_of_tiles_segmented_sum(
            own, segments_of_tiles_make_value_flag(x[i], starts[i]));
    own = segments_of_tiles_warp_inclusive_segmented_sum(own);
    b_carry = segments_of_tiles_grid_exclusive_segmented_sum(
        b_carry, ticket, totals, totals_known, before);
    if (i < n) {
        b_carry = segments_of_tiles_segmented_sum(b_carry, own);
        b[i] = b_carry.value;
    }
}
