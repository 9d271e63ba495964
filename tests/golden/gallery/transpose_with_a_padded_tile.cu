extern "C" __global__ void __launch_bounds__(256) transpose_with_a_padded_tile(const float *__restrict__ a, float *__restrict__ at, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 16 * by + tx, j = 16 * bx + ty;
    __shared__ float a_fetch[16][17];
    if (16 * by + ty < n && 16 * bx + tx < n)
        a_fetch[ty][tx] = a[(16 * by + ty) * n + 16 * bx + tx];  // fetch_a
    __syncthreads();
    if (j < n && i < n)
        at[j * n + i] = a_fetch[tx][ty];  // insn
}
