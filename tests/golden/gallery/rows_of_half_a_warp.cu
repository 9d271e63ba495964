extern "C" __global__ void __launch_bounds__(48) rows_of_half_a_warp(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float t[3][16];
    t[ty][tx] = a[bx * 48 + ty * 16 + tx];  // insn
    __syncwarp();
    b[bx * 48 + ty * 16 + tx] = t[ty][15 - tx] + t[ty][tx];  // insn_1
}
