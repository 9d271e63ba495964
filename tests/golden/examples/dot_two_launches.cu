// dot computes
//     out = sum(k, a[k]*b[k]), k in [0, n)
// Sizes: a: n, b: n
// Launch: dot_0, grid ((n + 4095) / 4096), block (256)
// Launch: dot_1, grid (1), block (256)
// Assumes: n >= 1; out overlaps no other array
// Indices have 32 bits: n, (n + 4095) / 4096, n + 1048575 must not exceed 2147483647

// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float dot_block_sum_float32(float x, float *partial)
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

extern "C" __global__ void __launch_bounds__(256) dot_0(
    const float *__restrict__ a,
    const float *__restrict__ b,
    int n,
    float *__restrict__ sums)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[8];
    if (4096 * bx + 4095 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        float part[4];
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            part[lane] = 0.0f;
        for (int i_outer = 0; i_outer < 4; ++i_outer) {
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane) {
                const int offset = 4096 * bx + 1024 * i_outer + 256 * lane + tx;
                part[lane] += a[offset] * b[offset];
            }
        }
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            acc += part[lane];
        acc = dot_block_sum_float32(acc, partial);
        if (tx == 0)
            sums[bx] = acc;
    } else {
        float acc = 0.0f;
        float part[4];
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            part[lane] = 0.0f;
        for (int i_outer = 0; i_outer < min(4, (n - tx + 1023) / 1024 - 4 * bx); ++i_outer) {
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane) {
                const int position = 4096 * bx + 1024 * i_outer + 256 * lane + tx;
                if (position < n)
                    part[lane] += a[position] * b[position];
            }
        }
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            acc += part[lane];
        acc = dot_block_sum_float32(acc, partial);
        if (tx == 0)
            sums[bx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(256) dot_1(
    float *__restrict__ out,
    int n,
    const float *__restrict__ sums)
{
    const int tx = threadIdx.x;
    __shared__ float partial_0[8];
    float acc_0 = 0.0f;
    for (int block_outer = 0; block_outer < (n - 4096 * tx + 1048575) / 1048576; ++block_outer)
        acc_0 += sums[256 * block_outer + tx];
    acc_0 = dot_block_sum_float32(acc_0, partial_0);
    if (tx == 0)
        out[0] = acc_0;
}
