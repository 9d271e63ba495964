extern "C" __global__ void __launch_bounds__(256) transposed(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float t[16][16];
    t[ty][tx] = a[(16 * by + ty) * 16 * n + 16 * bx + tx];  // store
    __syncthreads();
    b[(16 * bx + ty) * 16 * n + 16 * by + tx] = t[tx][ty];  // load
}
