extern "C" __global__ void __launch_bounds__(128) turned_tile_with_barriers_of_both_kinds(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float rows[4][32];
    __shared__ float turned[4][32];
    rows[ty][tx] = a[bx * 128 + ty * 32 + tx];  // insn
    __syncthreads();
    turned[ty][tx] = rows[3 - ty][tx];  // insn_1
    __syncwarp();
    b[bx * 128 + ty * 32 + tx] = turned[ty][(32 - tx) % 32];  // insn_2
}
