// The sum of x over the 64 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float best_segment_of_a_group_block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[0];
    x += partial[1];
    return x;
}

extern "C" __global__ void __launch_bounds__(64) best_segment_of_a_group(const int *__restrict__ group, const int *__restrict__ first, const float *__restrict__ x, float *__restrict__ best, int m_arg, int segments_arg, int entries_arg)
{
    const long long m = (long long)m_arg;
    const long long segments = (long long)segments_arg;
    const long long entries = (long long)entries_arg;
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x;
    __shared__ float partial[2];
    int low = group[bx];  // insn
    int high = group[bx + 1];  // insn_1
    float t = 0.0f;  // insn_2
    for (long long s = (long long)low; s < (long long)high; ++s) {
        int begin = first[s];  // insn_3
        int count = (unsigned int)first[s + 1] - begin;  // insn_4
        float acc = 0.0f;  // insn_5
        for (long long j_outer = 0; 64 * j_outer < (long long)count - tx; ++j_outer)
            acc += x[begin + 64 * j_outer + tx];  // insn_5
        acc = best_segment_of_a_group_block_sum_float32(acc, partial);  // insn_5
        t = fmaxf(t, acc);  // insn_5
        __syncthreads();
    }
    if (tx == 0)
        best[bx] = t;  // insn_6
}
