// The greatest x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float block_max_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x = fmaxf(x, partial[n]);
    return x;
}
// The sum of x over the 256 threads of the block, on each of them; the whole block calls it.
static __device__ __forceinline__ float block_sum_float32(float x, float *partial)
{
    #pragma unroll
    for (int step = 1; step <= 16; step *= 2)
        x += __shfl_xor_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[0];
    #pragma unroll
    for (int n = 1; n < 8; ++n)
        x += partial[n];
    return x;
}

extern "C" __global__ void __launch_bounds__(256) softmax(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float partial[8];
    __shared__ float partial_0[8];
    float acc = -__int_as_float(0x7f800000);  // insn_1
    __align__(16) float row[4][4];
    #pragma unroll
    for (int step = 0; step < 4; ++step) {
        *(float4 *)&row[step][0] = *(const float4 *)&x[bx * 4096 + 1024 * step + 4 * tx];  // insn
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            acc = fmaxf(acc, row[step][lane]);  // insn_1
    }
    acc = block_max_float32(acc, partial);  // insn_1
    float top = acc;  // insn_1
    float acc_0 = 0.0f;  // insn_3
    float power[4][4];
    #pragma unroll
    for (int step = 0; step < 4; ++step) {
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            power[step][lane] = expf(row[step][lane] - top);  // insn_2
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane)
            acc_0 += power[step][lane];  // insn_3
    }
    acc_0 = block_sum_float32(acc_0, partial_0);  // insn_3
    float total = acc_0;  // insn_3
    #pragma unroll
    for (int step = 0; step < 4; ++step) {
        float4 y_v;
        y_v.x = power[step][0] / total;
        y_v.y = power[step][1] / total;
        y_v.z = power[step][2] / total;
        y_v.w = power[step][3] / total;
        *(float4 *)&y[bx * 4096 + 1024 * step + 4 * tx] = y_v;  // insn_4
    }
}
