extern "C" __global__ void __launch_bounds__(8) dot_0(const float *__restrict__ a, const float *__restrict__ b, int n, float *__restrict__ part)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float mine[8];
    if (32 * bx + 31 < n) {
        float acc = 0.0f;  // compute_mine
        for (int k_inner_outer = 0; k_inner_outer < 4; ++k_inner_outer)
            acc += a[32 * bx + 8 * k_inner_outer + tx] * b[32 * bx + 8 * k_inner_outer + tx];  // compute_mine
        mine[tx] = acc;  // compute_mine
        float acc_0 = 0.0f;  // compute_part
        __syncwarp();
        for (int k_inner_inner = 0; k_inner_inner < 8; ++k_inner_inner)
            acc_0 += mine[k_inner_inner];  // compute_part
        if (tx == 0)
            part[bx] = acc_0;  // compute_part
    } else {
        float acc = 0.0f;  // compute_mine
        for (int k_inner_outer = 0; k_inner_outer < min(4, (n - tx + 7) / 8 - 4 * bx); ++k_inner_outer)
            acc += a[32 * bx + 8 * k_inner_outer + tx] * b[32 * bx + 8 * k_inner_outer + tx];  // compute_mine
        if (32 * bx + tx < n)
            mine[tx] = acc;  // compute_mine
        float acc_0 = 0.0f;  // compute_part
        __syncwarp();
        for (int k_inner_inner = 0; k_inner_inner < min(8, n - 32 * bx); ++k_inner_inner)
            acc_0 += mine[k_inner_inner];  // compute_part
        if (tx == 0)
            part[bx] = acc_0;  // compute_part
    }
}

extern "C" __global__ void __launch_bounds__(1) dot_1(float *__restrict__ out, int n, const float *__restrict__ part)
{
    float acc_1 = 0.0f;
    for (int k_outer = 0; k_outer < (n + 31) / 32; ++k_outer)
        acc_1 += part[k_outer];
    out[0] = acc_1;
}
