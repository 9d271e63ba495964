extern "C" __global__ void __launch_bounds__(8) pool_in_a_loop(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int tx = threadIdx.x;
    __shared__ union {
        float x[8];
        float y[8];
    } mem;
    for (int s = 0; s < n; ++s) {
        mem.x[tx] = a[s * 8 + tx];  // insn
        __syncwarp();
        float twice = 2.0f * mem.x[7 - tx];  // insn_1
        __syncwarp();
        mem.y[tx] = twice;  // insn_2
        b[s * 8 + tx] = mem.y[tx];  // insn_3
        __syncwarp();
    }
}
