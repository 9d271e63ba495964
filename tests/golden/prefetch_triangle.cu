extern "C" __global__ void __launch_bounds__(64) triangle(float *__restrict__ l, const float *__restrict__ u, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    __shared__ float u_fetch[8][8];
    if (bx <= by) {
        if (8 * bx + ty < n && 8 * by + tx < n)
            u_fetch[ty][tx] = u[(8 * bx + ty) * n + 8 * by + tx];  // fetch_u
        __syncthreads();
        if (i < n && j <= i)
            l[i * n + j] = 2.0f * u_fetch[tx][ty];  // insn
    }
}
