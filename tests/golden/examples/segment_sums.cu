// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float segment_sums_block_sum_float32(float x, float *partial)
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

extern "C" __global__ void __launch_bounds__(256) segment_sums(const int *__restrict__ first, const float *__restrict__ x, float *__restrict__ y, int n_arg, int entries_arg)
{
    const long long n = (long long)n_arg;
    const long long entries = (long long)entries_arg;
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x;
    __shared__ float partial[8];
    int begin = first[bx];  // insn
    int count = (unsigned int)first[bx + 1] - begin;  // insn_1
    float acc = 0.0f;  // insn_2
    for (long long j_outer = 0; 256 * j_outer < (long long)count - tx; ++j_outer)
        acc += x[begin + 256 * j_outer + tx];  // insn_2
    acc = segment_sums_block_sum_float32(acc, partial);  // insn_2
    if (tx == 0)
        y[bx] = acc;  // insn_2
}
