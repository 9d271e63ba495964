// product_with_a_split_sum computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: product_with_a_split_sum, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8, 4)
// Assumes: n >= 0; c overlaps no other array
// Indices have 32 bits: n*n, n + 15 must not exceed 2147483647

// The sum of x over the 4 threads that differ in threadIdx.z only, on each of them; the whole block
// calls it.
static __device__ __forceinline__ float product_with_a_split_sum_sum_over_z_float32(
    float x,
    float *partial)
{
    partial[threadIdx.x + 8 * threadIdx.y + 64 * threadIdx.z] = x;
    __syncthreads();  // the part of each warp is there
    x = partial[threadIdx.x + 8 * threadIdx.y];
    #pragma unroll
    for (int n = 1; n < 4; ++n)
        x += partial[threadIdx.x + 8 * threadIdx.y + 64 * n];
    return x;
}

extern "C" __global__ void __launch_bounds__(256) product_with_a_split_sum(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    __shared__ float a_fetch[8][4];
    __shared__ float partial[256];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        // Full tiles, without tests; the others begin at k_outer_full.
        const int k_outer_full = n / 4;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            if (tz == 0 && tx < 4)
                a_fetch[ty][tx] = a[i * n + 4 * k_outer + tx];
            __syncthreads();  // a_fetch: reads follow writes
            acc += a_fetch[ty][tz] * b[(4 * k_outer + tz) * n + j];
            __syncthreads();  // a_fetch: writes follow reads
        }
        for (int k_outer = k_outer_full; k_outer < (n + 3) / 4; ++k_outer) {
            const int k = 4 * k_outer + tz;
            if (tz == 0 && 4 * k_outer + tx < n)
                a_fetch[ty][tx] = a[i * n + 4 * k_outer + tx];
            __syncthreads();  // a_fetch: reads follow writes
            if (k < n)
                acc += a_fetch[ty][tz] * b[k * n + j];
            __syncthreads();  // a_fetch: writes follow reads
        }
        acc = product_with_a_split_sum_sum_over_z_float32(acc, partial);
        if (tz == 0)
            c[i * n + j] = acc;
    } else {
        float acc = 0.0f;
        for (int k_outer = 0; k_outer < (n + 3) / 4; ++k_outer) {
            const int k = 4 * k_outer + tz;
            if (tz == 0 && i < n && tx < 4 && 4 * k_outer + tx < n)
                a_fetch[ty][tx] = a[i * n + 4 * k_outer + tx];
            __syncthreads();  // a_fetch: reads follow writes
            if (k < n && i < n && j < n)
                acc += a_fetch[ty][tz] * b[k * n + j];
            __syncthreads();  // a_fetch: writes follow reads
        }
        acc = product_with_a_split_sum_sum_over_z_float32(acc, partial);
        if (tz == 0 && i < n && j < n)
            c[i * n + j] = acc;
    }
}
