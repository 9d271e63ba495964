// LANES threads add up a row of 4 * LANES * VECTORS elements; all loads of a thread are made before its first sum.
#define ROWS (256 / LANES)

extern "C" __global__ void __launch_bounds__(256) row_sums(const float4 *__restrict__ a, float *__restrict__ y, int m)
{
    const int lane = threadIdx.x % LANES, row = ROWS * blockIdx.x + threadIdx.x / LANES;
    float4 part[VECTORS];
    #pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        part[k] = row < m ? a[((long long)row * VECTORS + k) * LANES + lane] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        sum += (part[k].x + part[k].y) + (part[k].z + part[k].w);
    #pragma unroll
    for (int step = (LANES < 32 ? LANES : 32) / 2; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
#if LANES > 32
    __shared__ float partial[8];
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int warp = 0; warp < 8; ++warp)
        sum += partial[warp];
#endif
    if (lane == 0 && row < m)
        y[row] = sum;
}
