extern "C" __global__ void __launch_bounds__(256) bias_gelu(const float *__restrict__ x, float *__restrict__ y, const float *__restrict__ b, int m, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    if (1024 * bx + 4 * tx + 3 < n) {
        const float4 x_v = *(const float4 *)&x[by * n + 1024 * bx + 4 * tx];
        const float4 b_v = *(const float4 *)&b[1024 * bx + 4 * tx];
        float t[4];
        t[0] = x_v.x + b_v.x;  // insn
        t[1] = x_v.y + b_v.y;  // insn
        t[2] = x_v.z + b_v.z;  // insn
        t[3] = x_v.w + b_v.w;  // insn
        float4 y_v;
        y_v.x = 0.5f * t[0] * (1.0f + erff(0.70710677f * t[0]));
        y_v.y = 0.5f * t[1] * (1.0f + erff(0.70710677f * t[1]));
        y_v.z = 0.5f * t[2] * (1.0f + erff(0.70710677f * t[2]));
        y_v.w = 0.5f * t[3] * (1.0f + erff(0.70710677f * t[3]));
        *(float4 *)&y[by * n + 1024 * bx + 4 * tx] = y_v;  // insn_1
    }
}
