extern "C" __global__ void __launch_bounds__(64) transpose(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + tx, j = 8 * bx + ty;
    __shared__ float a_fetch[8][9];
    if (8 * by + ty < n && 8 * bx + tx < n)
        a_fetch[ty][tx] = a[(8 * by + ty) * n + 8 * bx + tx];  // fetch_a
    __syncthreads();
    if (j < n && i < n)
        b[j * n + i] = a_fetch[tx][ty];  // insn
}
