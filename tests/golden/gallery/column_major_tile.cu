extern "C" __global__ void __launch_bounds__(49) column_major_tile(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float t[5][8];
    if (tx < 5)
        t[tx][ty] = a[bx * 35 + ty * 5 + tx];  // insn
    __syncthreads();
    if (ty < 5)
        b[bx * 35 + ty * 7 + tx] = t[ty][tx];  // insn_1
}
