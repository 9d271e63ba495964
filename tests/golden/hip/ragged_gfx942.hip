// HIP C++ for gfx942: waves of 64 lanes

// ragged computes
//     for r in [0, n)
//         count = length[r]
//         for t in [0, count)
//             s[r, t] = sum(k, a[r, t, k]), k in [0, 32)
// Sizes: length: n, a: n x 9 x 32, s: n x 9
// Launch: ragged, grid (n / 4), block (32, 4)
// Assumes: n % 4 == 0; n >= 1; s overlaps no other array
// Indices have 32 bits: n, 288*n, 9*n, n + 4 must not exceed 2147483647

// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; whole warps
// call it.
static __device__ __forceinline__ float ragged_sum_over_x_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor(x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(128) ragged(
    const int *__restrict__ length,
    const float *__restrict__ a,
    float *__restrict__ s,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = 4 * bx + ty;
    int count = length[r];  // count
    for (int t = 0; t < count; ++t) {
        float acc = a[r * 288 + t * 32 + tx];
        acc = ragged_sum_over_x_float32(acc);
        if (tx == 0)
            s[r * 9 + t] = acc;
    }
}
