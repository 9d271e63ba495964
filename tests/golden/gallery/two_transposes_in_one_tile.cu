extern "C" __global__ void __launch_bounds__(64) two_transposes_in_one_tile(const float *__restrict__ a, float *__restrict__ at, const double *__restrict__ b, double *__restrict__ bt, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + tx, j = 8 * bx + ty;
    __shared__ union {
        float a_fetch[8][8];
        double b_fetch[8][8];
    } tile;
    if (8 * by + ty < n && 8 * bx + tx < n)
        tile.a_fetch[ty][tx] = a[(8 * by + ty) * n + 8 * bx + tx];  // fetch_a
    __syncthreads();
    if (j < n && i < n)
        at[j * n + i] = tile.a_fetch[tx][ty];  // insn
    __syncthreads();
    if (8 * by + ty < n && 8 * bx + tx < n)
        tile.b_fetch[ty][tx] = b[(8 * by + ty) * n + 8 * bx + tx];  // fetch_b
    __syncthreads();
    if (j < n && i < n)
        bt[j * n + i] = tile.b_fetch[tx][ty];  // insn_1
}
