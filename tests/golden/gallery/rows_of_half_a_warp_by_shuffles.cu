extern "C" __global__ void __launch_bounds__(48) rows_by_shuffles(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    float t = a[bx * 48 + ty * 16 + tx];  // insn
    b[bx * 48 + ty * 16 + tx] = __shfl_sync(0xffffu << 16 * (ty % 2), t, 15 - tx, 16) + t;  // insn_1
}
