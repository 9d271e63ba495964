// short_rows computes
//     for i in [0, m)
//         y[i] = sum(j, a[i, j]), j in [0, 32)
// Sizes: a: m x 32, y: m
// Launch: short_rows, grid ((m + 127) / 128), block (8, 32)
// Assumes: m >= 1; a is aligned to 16 bytes; y overlaps no other array
// Indices have 32 bits: 32*m, m, m + 287 must not exceed 2147483647

// The sum of x over the 8 threads that differ in threadIdx.x only, on each of them; the whole block
// calls it.
static __device__ __forceinline__ float short_rows_sum_over_x_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 4; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(256) short_rows(
    const float *__restrict__ a,
    float *__restrict__ y,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (128 * bx + 127 < m) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc[4];
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
            acc[i_inner_outer] = 0.0f;
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            const float4 a_v =
                *(const float4 *)&a[(128 * bx + 32 * i_inner_outer + ty) * 32 + 4 * tx];
            acc[i_inner_outer] += a_v.x;
            acc[i_inner_outer] += a_v.y;
            acc[i_inner_outer] += a_v.z;
            acc[i_inner_outer] += a_v.w;
        }
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
            acc[i_inner_outer] = short_rows_sum_over_x_float32(acc[i_inner_outer]);
        if (tx == 0) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
                y[128 * bx + 32 * i_inner_outer + ty] = acc[i_inner_outer];
        }
    } else {
        float acc[4];
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            if (128 * bx + 32 * i_inner_outer < m)
                acc[i_inner_outer] = 0.0f;
        }
        if (128 * bx + ty < m) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 128 * bx + 32 * i_inner_outer + ty;
                if (i < m) {
                    const float4 a_v = *(const float4 *)&a[i * 32 + 4 * tx];
                    acc[i_inner_outer] += a_v.x;
                    acc[i_inner_outer] += a_v.y;
                    acc[i_inner_outer] += a_v.z;
                    acc[i_inner_outer] += a_v.w;
                }
            }
        }
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            if (128 * bx + 32 * i_inner_outer < m)
                acc[i_inner_outer] = short_rows_sum_over_x_float32(acc[i_inner_outer]);
        }
        if (tx == 0 && 128 * bx + ty < m) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 128 * bx + 32 * i_inner_outer + ty;
                if (i < m)
                    y[i] = acc[i_inner_outer];
            }
        }
    }
}
