// segmented_scan computes
//     for i in [0, n)
//         b[i] = reduce(segmented(sum), j, x[j], starts[j]).value, j in [0, i + 1)
// Sizes: x: n, b: n, starts: n
// Launch: segmented_scan_0, grid ((n + 255) / 256), block (64)
// Launch: segmented_scan_1, grid (1), block (1)
// Launch: segmented_scan_2, grid ((n + 255) / 256), block (64)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, (n + 255) / 256, n + 515 must not exceed 2147483647

typedef struct {
    float value;
    bool flag;
} segmented_scan_value_flag;
static_assert(
    sizeof(segmented_scan_value_flag) == 8,
    "segmented_scan_value_flag is not laid out as in NumPy");

static __device__ __forceinline__ segmented_scan_value_flag segmented_scan_make_value_flag(
    float value,
    bool flag)
{
    segmented_scan_value_flag result;
    result.value = value;
    result.flag = flag;
    return result;
}
static __device__ __forceinline__ segmented_scan_value_flag segmented_scan_segmented_sum(
    segmented_scan_value_flag a,
    segmented_scan_value_flag b)
{
    segmented_scan_value_flag result;
    result.value = b.flag ? b.value : a.value + b.value;
    result.flag = a.flag || b.flag;
    return result;
}
// The value of the thread of the warp whose number differs in the bit step.
static __device__ __forceinline__ segmented_scan_value_flag segmented_scan_exchanged_value_flag(
    segmented_scan_value_flag x,
    int step)
{
    x.value = __shfl_xor_sync(0xffffffff, x.value, step);
    x.flag = __shfl_xor_sync(0xffffffff, x.flag, step);
    return x;
}
// The segmented(sum) of x over the 64 threads of the block, on each of them; the whole block calls
// it.
static __device__ __forceinline__ segmented_scan_value_flag segmented_scan_block_segmented_sum(
    segmented_scan_value_flag x,
    segmented_scan_value_flag *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2) {
        const segmented_scan_value_flag y = segmented_scan_exchanged_value_flag(x, step);
        x = threadIdx.x & step
            ? segmented_scan_segmented_sum(y, x)
            : segmented_scan_segmented_sum(x, y);
    }
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    x = segmented_scan_segmented_sum(x, partial[1]);
    return x;
}
// The value of the thread of the warp that is so many before this one.
static __device__ __forceinline__ segmented_scan_value_flag segmented_scan_above_value_flag(
    segmented_scan_value_flag x,
    int distance)
{
    x.value = __shfl_up_sync(0xffffffff, x.value, distance);
    x.flag = __shfl_up_sync(0xffffffff, x.flag, distance);
    return x;
}
// The segmented(sum) of x over the threads of the block before this one; the whole block calls it.
static __device__ __forceinline__ segmented_scan_value_flag
segmented_scan_block_exclusive_segmented_sum(
    segmented_scan_value_flag x,
    segmented_scan_value_flag *partial)
{
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const segmented_scan_value_flag y = segmented_scan_above_value_flag(x, step);
        if (threadIdx.x % 32 >= step)
            x = segmented_scan_segmented_sum(y, x);
    }
    if (threadIdx.x % 32 == 31)
        partial[threadIdx.x / 32] = x;
    __syncthreads();  // the part of each warp is there
    segmented_scan_value_flag before = segmented_scan_make_value_flag(0.0f, false);
    for (int n = 0; n < threadIdx.x / 32; ++n)
        before = segmented_scan_segmented_sum(before, partial[n]);
    const segmented_scan_value_flag y = segmented_scan_above_value_flag(x, 1);
    return threadIdx.x % 32 == 0 ? before : segmented_scan_segmented_sum(before, y);
}

extern "C" __global__ void __launch_bounds__(64) segmented_scan_0(
    const float *__restrict__ x,
    const bool *__restrict__ starts,
    int n,
    segmented_scan_value_flag *__restrict__ tile_sum)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ segmented_scan_value_flag partial[2];
    if (256 * bx + 255 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        segmented_scan_value_flag acc = segmented_scan_make_value_flag(0.0f, false);
        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
            const int offset = 256 * bx + 4 * tx + j_inner_inner;
            acc = segmented_scan_segmented_sum(
                acc, segmented_scan_make_value_flag(x[offset], starts[offset]));
        }
        acc = segmented_scan_block_segmented_sum(acc, partial);
        if (tx == 0)
            tile_sum[bx] = acc;
    } else {
        segmented_scan_value_flag acc = segmented_scan_make_value_flag(0.0f, false);
        for (int j_inner_inner = 0;
                j_inner_inner < min(4, n - 256 * bx - 4 * tx);
                ++j_inner_inner) {
            const int offset = 256 * bx + 4 * tx + j_inner_inner;
            acc = segmented_scan_segmented_sum(
                acc, segmented_scan_make_value_flag(x[offset], starts[offset]));
        }
        acc = segmented_scan_block_segmented_sum(acc, partial);
        if (tx == 0)
            tile_sum[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(1) segmented_scan_1(
    int n,
    const segmented_scan_value_flag *__restrict__ tile_sum,
    segmented_scan_value_flag *__restrict__ before_tile)
{
    segmented_scan_value_flag acc_0 = segmented_scan_make_value_flag(0.0f, false);
    for (int c = 0; c < (n + 255) / 256; ++c) {
        before_tile[c] = acc_0;
        acc_0 = segmented_scan_segmented_sum(acc_0, tile_sum[c]);
    }
}

extern "C" __global__ void __launch_bounds__(64) segmented_scan_2(
    const float *__restrict__ x,
    float *__restrict__ b,
    const bool *__restrict__ starts,
    int n,
    const segmented_scan_value_flag *__restrict__ before_tile)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ segmented_scan_value_flag partial_0[2];
    if (256 * bx + 255 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        segmented_scan_value_flag thread_sum = segmented_scan_make_value_flag(0.0f, false);
        for (int j_local_inner = 0; j_local_inner < 4; ++j_local_inner) {
            const int offset = 256 * bx + 4 * tx + j_local_inner;
            thread_sum = segmented_scan_segmented_sum(
                thread_sum, segmented_scan_make_value_flag(x[offset], starts[offset]));
        }
        segmented_scan_value_flag part = segmented_scan_make_value_flag(0.0f, false);
        part = segmented_scan_segmented_sum(part, thread_sum);
        part = segmented_scan_block_exclusive_segmented_sum(part, partial_0);
        segmented_scan_value_flag before_thread = before_tile[bx];
        before_thread = segmented_scan_segmented_sum(before_thread, part);
        for (int k = 0; k < 4; ++k) {
            const int i = 256 * bx + 4 * tx + k;
            before_thread = segmented_scan_segmented_sum(
                before_thread, segmented_scan_make_value_flag(x[i], starts[i]));
            b[i] = before_thread.value;
        }
    } else {
        segmented_scan_value_flag thread_sum;
        const int position = 256 * bx + 4 * tx;
        if (position < n)
            thread_sum = segmented_scan_make_value_flag(0.0f, false);
        for (int j_local_inner = 0; j_local_inner < min(4, n - 256 * bx - 4 * tx); ++j_local_inner)
            thread_sum = segmented_scan_segmented_sum(
                thread_sum,
                segmented_scan_make_value_flag(
                    x[position + j_local_inner], starts[position + j_local_inner]));
        segmented_scan_value_flag part = segmented_scan_make_value_flag(0.0f, false);
        if (position < n)
            part = segmented_scan_segmented_sum(part, thread_sum);
        part = segmented_scan_block_exclusive_segmented_sum(part, partial_0);
        segmented_scan_value_flag before_thread;
        if (position < n) {
            before_thread = before_tile[bx];
            before_thread = segmented_scan_segmented_sum(before_thread, part);
        }
        for (int k = 0; k < min(4, n - 256 * bx - 4 * tx); ++k) {
            const int i = position + k;
            before_thread = segmented_scan_segmented_sum(
                before_thread, segmented_scan_make_value_flag(x[i], starts[i]));
            b[i] = before_thread.value;
        }
    }
}
