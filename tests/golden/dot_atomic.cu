extern "C" __global__ void __launch_bounds__(1) dot_0(float *__restrict__ out, int n)
{
    out[0] = 0.0f;
}

extern "C" __global__ void __launch_bounds__(8) dot_1(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float mine[8];
    if (32 * bx + 31 < n) {
        float acc = 0.0f;  // compute_mine
        for (int k_inner_outer = 0; k_inner_outer < 4; ++k_inner_outer)
            acc += a[32 * bx + 8 * k_inner_outer + tx] * b[32 * bx + 8 * k_inner_outer + tx];  // compute_mine
        mine[tx] = acc;  // compute_mine
        float acc_0 = 0.0f;  // insn
        __syncwarp();
        for (int k_inner_inner = 0; k_inner_inner < 8; ++k_inner_inner)
            acc_0 += mine[k_inner_inner];  // insn
        if (tx == 0)
            atomicAdd(&out[0], acc_0);  // insn
    } else {
        float acc = 0.0f;  // compute_mine
        for (int k_inner_outer = 0; k_inner_outer < min(4, (n - tx + 7) / 8 - 4 * bx); ++k_inner_outer)
            acc += a[32 * bx + 8 * k_inner_outer + tx] * b[32 * bx + 8 * k_inner_outer + tx];  // compute_mine
        if (32 * bx + tx < n)
            mine[tx] = acc;  // compute_mine
        float acc_0 = 0.0f;  // insn
        __syncwarp();
        for (int k_inner_inner = 0; k_inner_inner < min(8, n - 32 * bx); ++k_inner_inner)
            acc_0 += mine[k_inner_inner];  // insn
        if (tx == 0)
            atomicAdd(&out[0], acc_0);  // insn
    }
}
