// prefix_by_threads computes
//     for i in [0, n)
//         b[i] = sum(j, cast(float64, a[j])), j in [0, i + 1)
// Sizes: a: n, b: n
// Launch: prefix_by_threads_clear, grid (((n + 3) / 4 + 255) / 256), block (256)
// Launch: prefix_by_threads, grid ((n + 3) / 4), block (1)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, 256*(((n + 3) / 4 + 255) / 256), 512*(((n + 3) / 4 + 255) / 256),
//     n + 7 must not exceed 2147483647

// Publishes the x of this block for the blocks after it; every block calls it.
// known: of each block 0, or 1 if totals has its own x, or 2 if it has that of all blocks up to it,
// too.
static __device__ __forceinline__ void prefix_by_threads_store_float64(
    double x,
    int block,
    double *totals,
    volatile unsigned int *known)
{
    if (block > 0) {
        totals[2u * block] = x;
        __threadfence();
        known[block] = 1;
    }
}
// The sum of x over the blocks before this one; every block calls it, and has stored its own x.
static __device__ __forceinline__ double prefix_by_threads_grid_exclusive_sum_float64(
    double x,
    int block,
    double *totals,
    volatile unsigned int *known,
    double *before)
{
    if (threadIdx.x == 0) {
        if (block > 0)
            __nanosleep(2000);  // meanwhile blocks before this one look back themselves
        double earlier = 0.0;
        for (int other = block - 1; other >= 0; --other) {
            unsigned int word;
            do
                word = known[other];
            while (word == 0);
            __threadfence();
            const double y = totals[2u * other + (word - 1)];
            earlier = y + earlier;
            if (word == 2)
                break;
        }
        const double all = earlier + x;
        totals[2u * block + 1] = all;
        __threadfence();
        known[block] = 2;
        *before = earlier;
    }
    __syncthreads();  // the value is there for all threads
    return *before;
}

// Resets the values that blocks pass on, and the number of the next block: before each run.
extern "C" __global__ void __launch_bounds__(256) prefix_by_threads_clear(
    unsigned int *__restrict__ next_block,
    unsigned int *__restrict__ totals_known)
{
    const unsigned int i = 256 * blockIdx.x + threadIdx.x;
    if (i == 0)
        next_block[0] = 0;
    totals_known[i] = 0;
}

extern "C" __global__ void prefix_by_threads(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    unsigned int *next_block,
    unsigned int *totals_known,
    double *totals)
{
    __shared__ unsigned int ticket;  // this block's number: those before it have begun
    ticket = atomicAdd(next_block, 1);
    __syncthreads();  // the number is there for all threads
    const int bx = ticket;
    __shared__ double before[1];
    if (4 * bx + 3 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        double b_sum = 0.0;
        for (int j_inner = 0; j_inner < 4; ++j_inner)
            b_sum += (double)a[4 * bx + j_inner];
        double b_carry = b_sum;
        prefix_by_threads_store_float64(b_carry, ticket, totals, totals_known);
        b_carry = prefix_by_threads_grid_exclusive_sum_float64(
            b_carry, ticket, totals, totals_known, before);
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 4 * bx + i_inner;
            b_carry += (double)a[i];
            b[i] = b_carry;
        }
    } else {
        double b_sum = 0.0;
        for (int j_inner = 0; j_inner < min(4, n - 4 * bx); ++j_inner)
            b_sum += (double)a[4 * bx + j_inner];
        double b_carry = b_sum;
        prefix_by_threads_store_float64(b_carry, ticket, totals, totals_known);
        b_carry = prefix_by_threads_grid_exclusive_sum_float64(
            b_carry, ticket, totals, totals_known, before);
        for (int i_inner = 0; i_inner < min(4, n - 4 * bx); ++i_inner) {
            const int i = 4 * bx + i_inner;
            b_carry += (double)a[i];
            b[i] = b_carry;
        }
    }
}
