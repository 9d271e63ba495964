extern "C" __global__ void __launch_bounds__(32) steps(const float *__restrict__ a, float *__restrict__ o, int n, int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float t = a[bx * 32 + tx];  // insn
    for (int k = 0; k < m; ++k) {
        float u = __shfl_sync(0xffffffffu, t, (tx + 1) % 32) + k;  // insn_1
        t = __shfl_sync(0xffffffffu, u, 31 - tx);  // insn_2
    }
    o[bx * 32 + tx] = t;  // insn_3
}
