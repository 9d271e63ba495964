extern "C" __global__ void __launch_bounds__(16) two_tiles(const float *a, float *__restrict__ b, const float *c, float *__restrict__ d, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ union {
        float a_fetch[16];
        float c_fetch[16];
    } tile;
    tile.a_fetch[tx] = a[bx * 16 + tx];  // fetch_a
    __syncwarp();
    b[bx * 16 + tx] = tile.a_fetch[15 - tx];  // first
    __syncwarp();
    tile.c_fetch[tx] = c[bx * 16 + tx];  // fetch_c
    __syncwarp();
    d[bx * 16 + tx] = tile.c_fetch[15 - tx] + b[bx * 16 + tx];  // second
}
