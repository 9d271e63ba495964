// transpose_of_vectors computes
//     for i in [0, n), j in [0, n)
//         b[i, j] = 2*a[j, i]
// Sizes: a: n x n, b: n x n
// Launch: transpose_of_vectors, grid ((n + 15) / 16, (n + 15) / 16), block (16, 16)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n*n, n + 31 must not exceed 2147483647

#ifndef POLYLOOP_OPERATOR_TIMES_FLOAT_FLOAT4
#define POLYLOOP_OPERATOR_TIMES_FLOAT_FLOAT4
static __device__ __forceinline__ float4 operator*(float a, float4 b)
{
    return make_float4(a * b.x, a * b.y, a * b.z, a * b.w);
}
#endif

extern "C" __global__ void __launch_bounds__(256) transpose_of_vectors(
    const float4 *__restrict__ a,
    float4 *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 16 * by + ty, j = 16 * bx + tx;
    __shared__ float4 a_fetch[16][16];
    if (16 * bx + ty < n && 16 * by + tx < n)
        a_fetch[ty][tx] = a[(16 * bx + ty) * n + 16 * by + tx];
    __syncthreads();  // a_fetch: reads follow writes
    if (i < n && j < n)
        b[i * n + j] = 2.0f * a_fetch[tx][ty];
}
