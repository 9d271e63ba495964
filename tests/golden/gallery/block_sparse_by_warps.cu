// block_sparse_by_warps computes
//     for i in [0, n)
//         begin = first[i]
//         end = first[i + 1]
//         for q in [0, 2)
//             t[q] = 0
//         for e in [begin, end), r in [0, 2)
//             t[r] = t[r] + sum(k, a[e, r, k]*x[column[e], k]), k in [0, 32)
//         for s in [0, 2)
//             y[i, s] = t[s]
// Sizes: first: (n + 1), column: blocks, a: blocks x 2 x 32, x: columns x 32, y: n x 2
// Launch: block_sparse_by_warps, grid ((n + 3) / 4), block (32, 4)
// Assumes: blocks >= 0; columns >= 0; n >= 1; y overlaps no other array
// Indices have 32 bits: n + 1, blocks, 64*blocks, 32*columns, 2*n, n + 7 must not exceed 2147483647

// The sum of x over the 32 threads that differ in threadIdx.x only, on each of them; whole warps
// call it.
static __device__ __forceinline__ float block_sparse_by_warps_warp_sum_float32(float x)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    return x;
}

extern "C" __global__ void __launch_bounds__(128) block_sparse_by_warps(
    const int *__restrict__ first,
    const int *__restrict__ column,
    const float *__restrict__ a,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n,
    int blocks,
    int columns)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 4 * bx + ty;
    if (i < n) {
        int begin = first[i];
        int end = first[i + 1];
        float t[2];
        #pragma unroll
        for (int q = 0; q < 2; ++q)
            t[q] = 0.0f;
        for (int e = begin; e < end; ++e) {
            #pragma unroll
            for (int r = 0; r < 2; ++r) {
                float acc = a[e * 64 + r * 32 + tx] * x[column[e] * 32 + tx];
                acc = block_sparse_by_warps_warp_sum_float32(acc);
                t[r] += acc;
            }
        }
        if (tx == 0) {
            #pragma unroll
            for (int s = 0; s < 2; ++s)
                y[i * 2 + s] = t[s];
        }
    }
}
