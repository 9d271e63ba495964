// warp_rows computes
//     for i in [0, m)
//         y[i] = sum(j, a[i, j]), j in [0, 1024)
// Sizes: a: m x 1024, y: m
// Launch: warp_rows, grid ((m + 7) / 8), block (32, 8)
// Assumes: m >= 1; a is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: 1024*m, m, m + 15 must not exceed 2147483647

// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; the whole
// block calls it.
static __device__ __forceinline__ float warp_rows_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(256) warp_rows(
    const float *__restrict__ a,
    float *__restrict__ y,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * bx + ty;
    float acc = 0.0f;
    if (i < m) {
        float part[8];
        #pragma unroll
        for (int j_outer = 0; j_outer < 8; ++j_outer)
            part[j_outer] = 0.0f;
        #pragma unroll
        for (int j_outer = 0; j_outer < 8; ++j_outer) {
            const float4 a_v = *(const float4 *)&a[i * 1024 + 128 * j_outer + 4 * tx];
            part[j_outer] += a_v.x;
            part[j_outer] += a_v.y;
            part[j_outer] += a_v.z;
            part[j_outer] += a_v.w;
        }
        #pragma unroll
        for (int j_outer = 0; j_outer < 8; ++j_outer)
            acc += part[j_outer];
    }
    acc = warp_rows_warp_sum_float32(acc);
    if (tx == 0 && i < m)
        y[i] = acc;
}
