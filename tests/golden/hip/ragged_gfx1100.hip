// HIP C++ for gfx1100: waves of 32 lanes

// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; whole warps call it.
static __device__ __forceinline__ float ragged_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor(x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(128) ragged(const int *__restrict__ length, const float *__restrict__ a, float *__restrict__ s, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = 4 * bx + ty;
    int count = length[r];  // count
    for (int t = 0; t < count; ++t) {
        float acc = a[r * 288 + t * 32 + tx];  // insn
        acc = ragged_warp_sum_float32(acc);  // insn
        if (tx == 0)
            s[r * 9 + t] = acc;  // insn
    }
}
