extern "C" __global__ void __launch_bounds__(64) bias_gelu(const float *__restrict__ x, float *__restrict__ y, const float *__restrict__ b, int n, int m)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    if (256 * bx + 4 * tx + 3 < m) {
        const float4 x_v = *(const float4 *)&x[by * m + 256 * bx + 4 * tx];
        const float4 b_v = *(const float4 *)&b[256 * bx + 4 * tx];
        float h[4];
        h[0] = x_v.x + b_v.x;  // insn
        h[1] = x_v.y + b_v.y;  // insn
        h[2] = x_v.z + b_v.z;  // insn
        h[3] = x_v.w + b_v.w;  // insn
        float4 y_v;
        y_v.x = 0.5f * h[0] * (1.0f + tanhf(0.7978846f * (h[0] + 0.044715f * h[0] * h[0] * h[0])));
        y_v.y = 0.5f * h[1] * (1.0f + tanhf(0.7978846f * (h[1] + 0.044715f * h[1] * h[1] * h[1])));
        y_v.z = 0.5f * h[2] * (1.0f + tanhf(0.7978846f * (h[2] + 0.044715f * h[2] * h[2] * h[2])));
        y_v.w = 0.5f * h[3] * (1.0f + tanhf(0.7978846f * (h[3] + 0.044715f * h[3] * h[3] * h[3])));
        *(float4 *)&y[by * m + 256 * bx + 4 * tx] = y_v;  // insn_1
    }
}
