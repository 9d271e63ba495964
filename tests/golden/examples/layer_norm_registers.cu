// The sum of x over the 256 threads that differ in threadIdx.x only, on each of them; the whole block calls it.
static __device__ __forceinline__ float layer_norm_registers_sum_over_x_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[8 * threadIdx.y + threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[8 * threadIdx.y];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x += partial[8 * threadIdx.y + n];
    return x;
}

extern "C" __global__ void __launch_bounds__(512) layer_norm_registers(const float *__restrict__ x, float *__restrict__ y, const float *__restrict__ gamma, const float *__restrict__ beta, int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 2 * bx + ty;
    __shared__ float partial[16];
    __shared__ float partial_0[16];
    float acc = 0.0f;  // insn_1
    __align__(16) float row[4][4];
    if (i < m) {
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            *(float4 *)&row[step][0] = *(const float4 *)&x[i * 4096 + 1024 * step + 4 * tx];  // insn
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                acc += row[step][lane];  // insn_1
        }
    }
    acc = layer_norm_registers_sum_over_x_float32(acc, partial);  // insn_1
    float mean;
    if (i < m)
        mean = acc / 4096.0f;  // insn_1
    float acc_0 = 0.0f;  // insn_3
    float away[4][4];
    if (i < m) {
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                away[step][lane] = row[step][lane] - mean;  // insn_2
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane)
                acc_0 += away[step][lane] * away[step][lane];  // insn_3
        }
    }
    acc_0 = layer_norm_registers_sum_over_x_float32(acc_0, partial_0);  // insn_3
    if (i < m) {
        float scale = rsqrtf(acc_0 / 4096.0f + 1e-05f);  // insn_3
        #pragma unroll
        for (int step = 0; step < 4; ++step) {
            const float4 gamma_v = *(const float4 *)&gamma[1024 * step + 4 * tx];
            const float4 beta_v = *(const float4 *)&beta[1024 * step + 4 * tx];
            float4 y_v;
            y_v.x = away[step][0] * scale * gamma_v.x + beta_v.x;
            y_v.y = away[step][1] * scale * gamma_v.y + beta_v.y;
            y_v.z = away[step][2] * scale * gamma_v.z + beta_v.z;
            y_v.w = away[step][3] * scale * gamma_v.w + beta_v.w;
            *(float4 *)&y[i * 4096 + 1024 * step + 4 * tx] = y_v;  // insn_4
        }
    }
}
