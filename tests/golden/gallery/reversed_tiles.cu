extern "C" __global__ void __launch_bounds__(32) reversed_tiles(const int *__restrict__ x, int *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ int tile[32];
    tile[tx] = 0;  // clear
    {  // fill
        const int o = bx;
        const int i = tx;
        tile[i] = x[32*o + 31 - i];
    }
    y[32 * bx + tx] = tile[tx];  // insn
}
