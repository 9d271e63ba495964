extern "C" __global__ void __launch_bounds__(32) vector_components(const double4 *__restrict__ q, double4 *__restrict__ c, const float2 *__restrict__ s_s0, const float2 *__restrict__ s_s1, float2 *__restrict__ t_s0, float2 *__restrict__ t_s1, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        c[i].x = q[i].x;  // insn
        c[i].y = -q[i].y;  // insn_1
        c[i].z = -q[i].z;  // insn_1
        c[i].w = -q[i].w;  // insn_1
        t_s0[i].x = 2.0f * s_s1[i].y;  // insn_2
        t_s0[i].y = 2.0f * s_s1[i].x;  // insn_2
        t_s1[i].x = 2.0f * s_s0[i].y;  // insn_2
        t_s1[i].y = 2.0f * s_s0[i].x;  // insn_2
    }
}
