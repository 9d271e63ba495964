extern "C" __global__ void __launch_bounds__(32) vector_components(const double4 *__restrict__ q, double4 *__restrict__ c, const float2 *__restrict__ s_s0, const float2 *__restrict__ s_s1, float2 *__restrict__ t_s0, float2 *__restrict__ t_s1, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        c[32 * bx + tx].x = q[32 * bx + tx].x;  // insn
        c[32 * bx + tx].y = -q[32 * bx + tx].y;  // insn_1
        c[32 * bx + tx].z = -q[32 * bx + tx].z;  // insn_1
        c[32 * bx + tx].w = -q[32 * bx + tx].w;  // insn_1
        t_s0[32 * bx + tx].x = 2.0f * s_s1[32 * bx + tx].y;  // insn_2
        t_s0[32 * bx + tx].y = 2.0f * s_s1[32 * bx + tx].x;  // insn_2
        t_s1[32 * bx + tx].x = 2.0f * s_s0[32 * bx + tx].y;  // insn_2
        t_s1[32 * bx + tx].y = 2.0f * s_s0[32 * bx + tx].x;  // insn_2
    }
}
