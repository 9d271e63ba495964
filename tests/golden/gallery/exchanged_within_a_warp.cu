extern "C" __global__ void __launch_bounds__(32) exchanged_within_a_warp(const float *__restrict__ a, float *__restrict__ o, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float t = a[bx * 32 + tx];  // load
    o[bx * 32 + tx] = __shfl_sync(0xffffffffu, t, 31 - tx) + __shfl_sync(0xffffffffu, t, (tx + 1) % 32) + __shfl_sync(0xffffffffu, t, 5);  // insn
}
