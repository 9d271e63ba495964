// HIP C++ for gfx942: waves of 64 lanes

// sums computes
//     for i in [0, n)
//         s[i] = sum(j, a[i, j]), j in [0, m)
// Sizes: a: n x m, s: n
// Launch: sums, grid (n), block (256)
// Assumes: m >= 0; n >= 0; s overlaps no other array
// Indices have 32 bits: n*m, n, m + 768 must not exceed 2147483647

// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float sums_block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 32; step *= 2)
        x += __shfl_xor(x, step);
    if (threadIdx.x % 64 == 0)
        partial[threadIdx.x / 64] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 4; ++n)
        x += partial[n];
    return x;
}

extern "C" __global__ void __launch_bounds__(256) sums(
    const float *__restrict__ a,
    float *__restrict__ s,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[4];
    float acc = 0.0f;
    for (int j = tx; j < m; j += 256)
        acc += a[bx * m + j];
    acc = sums_block_sum_float32(acc, partial);
    if (tx == 0)
        s[bx] = acc;
}
