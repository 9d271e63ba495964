// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; whole warps call it.
static __device__ __forceinline__ float block_sparse_by_warps_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(128) block_sparse_by_warps(const int *__restrict__ first, const int *__restrict__ column, const float *__restrict__ a, const float *__restrict__ x, float *__restrict__ y, int n, int blocks, int columns)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 4 * bx + ty;
    if (i < n) {
        int begin = first[i];  // insn
        int end = first[i + 1];  // insn_1
        float t[2];
        #pragma unroll
        for (int q = 0; q < 2; ++q)
            t[q] = 0.0f;  // insn_2
        for (int e = begin; e < end; ++e) {
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                float acc = a[e * 64 + r * 32 + tx] * x[column[e] * 32 + tx];  // insn_3
                acc = block_sparse_by_warps_warp_sum_float32(acc);  // insn_3
                t[r] += acc;  // insn_3
            }
        }
        if (tx == 0) {
            #pragma unroll
            for (int s = 0; s < 2; ++s)
                y[i * 2 + s] = t[s];  // insn_4
        }
    }
}
