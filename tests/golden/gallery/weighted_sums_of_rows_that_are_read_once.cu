// weighted computes
//     for i in [0, n)
//         y[i] = sum(j, a[i, j]*w[j]), j in [0, 128)
// Sizes: a: n x 128, w: 128, y: n
// Launch: weighted, grid ((n + 7) / 8), block (32, 8)
// Assumes: n >= 0; a is aligned to 16 bytes; w is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: 128*n, n, n + 15 must not exceed 2147483647

// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ float weighted_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(256) weighted(
    const float *__restrict__ a,
    const float *__restrict__ w,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * bx + ty;
    float acc = 0.0f;
    if (i < n) {
        const float4 a_v = __ldcs((const float4 *)&a[i * 128 + 4 * tx]);
        const float4 w_v = *(const float4 *)&w[4 * tx];
        acc += a_v.x * w_v.x;
        acc += a_v.y * w_v.y;
        acc += a_v.z * w_v.z;
        acc += a_v.w * w_v.w;
    }
    acc = weighted_warp_sum_float32(acc);
    if (tx == 0 && i < n)
        y[i] = acc;
}
