extern "C" __global__ void __launch_bounds__(32) structure_of_arrays(const float *__restrict__ p_s0, const float *__restrict__ p_s1, const float *__restrict__ p_s2, float *__restrict__ d_s0, float *__restrict__ d_s1, float *__restrict__ d_s2, float *__restrict__ step, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float acc = p_s0[i] * p_s0[i];  // insn
        acc += p_s1[i] * p_s1[i];  // insn
        acc += p_s2[i] * p_s2[i];  // insn
        float norm = sqrtf(acc);  // insn
        d_s0[i] = p_s0[i] / norm;  // insn_1
        step[i * 2] = p_s1[i] - p_s0[i];  // insn_2
        d_s1[i] = p_s1[i] / norm;  // insn_1
        step[i * 2 + 1] = p_s2[i] - p_s1[i];  // insn_2
        d_s2[i] = p_s2[i] / norm;  // insn_1
    }
}
