extern "C" __global__ void __launch_bounds__(64) flash_attention(const float *__restrict__ q, float *__restrict__ o, const float *__restrict__ k, const float *__restrict__ v, float scale, int n, int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int t_mod_16 = tx % 16, t_div_16 = tx / 16;
    const int i = 64 * bx + tx;
    __shared__ float k_fetch[8][16];
    __shared__ float v_fetch[8][16];
    if (64 * bx + 63 < n) {
        float top = -3e+38f;  // insn
        float total = 0.0f;  // insn_1
        float acc[16];
        #pragma unroll
        for (int d = 0; d < 16; ++d)
            acc[d] = 0.0f;  // insn_2
        float q_fetch[16];
        #pragma unroll
        for (int q_dim_1 = 0; q_dim_1 < 16; ++q_dim_1)
            q_fetch[q_dim_1] = q[i * 16 + q_dim_1];  // fetch_q
        float s[8];
        float w[8];
        for (int t = 0; t < (m + 7) / 8 - 1; ++t) {
            #pragma unroll
            for (int k_dim_0_outer = 0; k_dim_0_outer < 2; ++k_dim_0_outer)
                k_fetch[4 * k_dim_0_outer + t_div_16][t_mod_16] = k[(8 * t + 4 * k_dim_0_outer + t_div_16) * 16 + t_mod_16];  // fetch_k
            __syncthreads();
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                float acc_0 = 0.0f;  // insn_3
                #pragma unroll
                for (int c = 0; c < 16; ++c)
                    acc_0 += q_fetch[c] * k_fetch[j][c];  // insn_3
                s[j] = scale * acc_0;  // insn_3
            }
            float acc_1 = -__int_as_float(0x7f800000);  // insn_4
            #pragma unroll
            for (int j1 = 0; j1 < 8; ++j1)
                acc_1 = fmaxf(acc_1, s[j1]);  // insn_4
            float next = fmaxf(top, acc_1);  // insn_4
            float shrink = expf(top - next);  // insn_5
            top = next;  // insn_6
            #pragma unroll
            for (int j2 = 0; j2 < 8; ++j2)
                w[j2] = expf(s[j2] - top);  // insn_7
            float acc_2 = 0.0f;  // insn_8
            #pragma unroll
            for (int j3 = 0; j3 < 8; ++j3)
                acc_2 += w[j3];  // insn_8
            total = total * shrink + acc_2;  // insn_8
            #pragma unroll
            for (int v_dim_0_outer = 0; v_dim_0_outer < 2; ++v_dim_0_outer)
                v_fetch[4 * v_dim_0_outer + t_div_16][t_mod_16] = v[(8 * t + 4 * v_dim_0_outer + t_div_16) * 16 + t_mod_16];  // fetch_v
            __syncthreads();
            #pragma unroll
            for (int d1 = 0; d1 < 16; ++d1) {
                float acc_3 = 0.0f;  // insn_9
                #pragma unroll
                for (int j3 = 0; j3 < 8; ++j3)
                    acc_3 += w[j3] * v_fetch[j3][d1];  // insn_9
                acc[d1] = acc[d1] * shrink + acc_3;  // insn_9
            }
        }
        for (int t = max(0, (m + 7) / 8 - 1); t < (m + 7) / 8; ++t) {
            if (8 * t + t_div_16 < m) {
                #pragma unroll
                for (int k_dim_0_outer = 0; k_dim_0_outer < 2; ++k_dim_0_outer) {
                    if (8 * t + 4 * k_dim_0_outer + t_div_16 < m)
                        k_fetch[4 * k_dim_0_outer + t_div_16][t_mod_16] = k[(8 * t + 4 * k_dim_0_outer + t_div_16) * 16 + t_mod_16];  // fetch_k
                }
            }
            __syncthreads();
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                if (8 * t + j < m) {
                    float acc_0 = 0.0f;  // insn_3
                    #pragma unroll
                    for (int c = 0; c < 16; ++c)
                        acc_0 += q_fetch[c] * k_fetch[j][c];  // insn_3
                    s[j] = scale * acc_0;  // insn_3
                }
            }
            float acc_1 = -__int_as_float(0x7f800000);  // insn_4
            #pragma unroll
            for (int j1 = 0; j1 < 8; ++j1) {
                if (8 * t + j1 < m)
                    acc_1 = fmaxf(acc_1, s[j1]);  // insn_4
            }
            float next = fmaxf(top, acc_1);  // insn_4
            float shrink = expf(top - next);  // insn_5
            top = next;  // insn_6
            #pragma unroll
            for (int j2 = 0; j2 < 8; ++j2) {
                if (8 * t + j2 < m)
                    w[j2] = expf(s[j2] - top);  // insn_7
            }
            float acc_2 = 0.0f;  // insn_8
            #pragma unroll
            for (int j3 = 0; j3 < 8; ++j3) {
                if (8 * t + j3 < m)
                    acc_2 += w[j3];  // insn_8
            }
            total = total * shrink + acc_2;  // insn_8
            if (8 * t + t_div_16 < m) {
                #pragma unroll
                for (int v_dim_0_outer = 0; v_dim_0_outer < 2; ++v_dim_0_outer) {
                    if (8 * t + 4 * v_dim_0_outer + t_div_16 < m)
                        v_fetch[4 * v_dim_0_outer + t_div_16][t_mod_16] = v[(8 * t + 4 * v_dim_0_outer + t_div_16) * 16 + t_mod_16];  // fetch_v
                }
            }
            __syncthreads();
            #pragma unroll
            for (int d1 = 0; d1 < 16; ++d1) {
                float acc_3 = 0.0f;  // insn_9
                #pragma unroll
                for (int j3 = 0; j3 < 8; ++j3) {
                    if (8 * t + j3 < m)
                        acc_3 += w[j3] * v_fetch[j3][d1];  // insn_9
                }
                acc[d1] = acc[d1] * shrink + acc_3;  // insn_9
            }
        }
        #pragma unroll
        for (int d2 = 0; d2 < 16; ++d2)
            o[i * 16 + d2] = acc[d2] / total;  // insn_10
    } else {
        float top = -3e+38f;  // insn
        float total = 0.0f;  // insn_1
        float acc[16];
        float q_fetch[16];
        if (i < n) {
            #pragma unroll
            for (int d = 0; d < 16; ++d)
                acc[d] = 0.0f;  // insn_2
            #pragma unroll
            for (int q_dim_1 = 0; q_dim_1 < 16; ++q_dim_1)
                q_fetch[q_dim_1] = q[i * 16 + q_dim_1];  // fetch_q
        }
        float s[8];
        float shrink;
        float w[8];
        for (int t = 0; t < (m + 7) / 8 - 1; ++t) {
            #pragma unroll
            for (int k_dim_0_outer = 0; k_dim_0_outer < 2; ++k_dim_0_outer)
                k_fetch[4 * k_dim_0_outer + t_div_16][t_mod_16] = k[(8 * t + 4 * k_dim_0_outer + t_div_16) * 16 + t_mod_16];  // fetch_k
            __syncthreads();
            if (i < n) {
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    float acc_0 = 0.0f;  // insn_3
                    #pragma unroll
                    for (int c = 0; c < 16; ++c)
                        acc_0 += q_fetch[c] * k_fetch[j][c];  // insn_3
                    s[j] = scale * acc_0;  // insn_3
                }
                float acc_1 = -__int_as_float(0x7f800000);  // insn_4
                #pragma unroll
                for (int j1 = 0; j1 < 8; ++j1)
                    acc_1 = fmaxf(acc_1, s[j1]);  // insn_4
                float next = fmaxf(top, acc_1);  // insn_4
                shrink = expf(top - next);  // insn_5
                top = next;  // insn_6
                #pragma unroll
                for (int j2 = 0; j2 < 8; ++j2)
                    w[j2] = expf(s[j2] - top);  // insn_7
                float acc_2 = 0.0f;  // insn_8
                #pragma unroll
                for (int j3 = 0; j3 < 8; ++j3)
                    acc_2 += w[j3];  // insn_8
                total = total * shrink + acc_2;  // insn_8
            }
            #pragma unroll
            for (int v_dim_0_outer = 0; v_dim_0_outer < 2; ++v_dim_0_outer)
                v_fetch[4 * v_dim_0_outer + t_div_16][t_mod_16] = v[(8 * t + 4 * v_dim_0_outer + t_div_16) * 16 + t_mod_16];  // fetch_v
            __syncthreads();
            if (i < n) {
                #pragma unroll
                for (int d1 = 0; d1 < 16; ++d1) {
                    float acc_3 = 0.0f;  // insn_9
                    #pragma unroll
                    for (int j3 = 0; j3 < 8; ++j3)
                        acc_3 += w[j3] * v_fetch[j3][d1];  // insn_9
                    acc[d1] = acc[d1] * shrink + acc_3;  // insn_9
                }
            }
        }
        for (int t = max(0, (m + 7) / 8 - 1); t < (m + 7) / 8; ++t) {
            if (8 * t + t_div_16 < m) {
                #pragma unroll
                for (int k_dim_0_outer = 0; k_dim_0_outer < 2; ++k_dim_0_outer) {
                    if (8 * t + 4 * k_dim_0_outer + t_div_16 < m)
                        k_fetch[4 * k_dim_0_outer + t_div_16][t_mod_16] = k[(8 * t + 4 * k_dim_0_outer + t_div_16) * 16 + t_mod_16];  // fetch_k
                }
            }
            __syncthreads();
            if (i < n) {
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    if (8 * t + j < m) {
                        float acc_0 = 0.0f;  // insn_3
                        #pragma unroll
                        for (int c = 0; c < 16; ++c)
                            acc_0 += q_fetch[c] * k_fetch[j][c];  // insn_3
                        s[j] = scale * acc_0;  // insn_3
                    }
                }
                float acc_1 = -__int_as_float(0x7f800000);  // insn_4
                #pragma unroll
                for (int j1 = 0; j1 < 8; ++j1) {
                    if (8 * t + j1 < m)
                        acc_1 = fmaxf(acc_1, s[j1]);  // insn_4
                }
                float next = fmaxf(top, acc_1);  // insn_4
                shrink = expf(top - next);  // insn_5
                top = next;  // insn_6
                #pragma unroll
                for (int j2 = 0; j2 < 8; ++j2) {
                    if (8 * t + j2 < m)
                        w[j2] = expf(s[j2] - top);  // insn_7
                }
                float acc_2 = 0.0f;  // insn_8
                #pragma unroll
                for (int j3 = 0; j3 < 8; ++j3) {
                    if (8 * t + j3 < m)
                        acc_2 += w[j3];  // insn_8
                }
                total = total * shrink + acc_2;  // insn_8
            }
            if (8 * t + t_div_16 < m) {
                #pragma unroll
                for (int v_dim_0_outer = 0; v_dim_0_outer < 2; ++v_dim_0_outer) {
                    if (8 * t + 4 * v_dim_0_outer + t_div_16 < m)
                        v_fetch[4 * v_dim_0_outer + t_div_16][t_mod_16] = v[(8 * t + 4 * v_dim_0_outer + t_div_16) * 16 + t_mod_16];  // fetch_v
                }
            }
            __syncthreads();
            if (i < n) {
                #pragma unroll
                for (int d1 = 0; d1 < 16; ++d1) {
                    float acc_3 = 0.0f;  // insn_9
                    #pragma unroll
                    for (int j3 = 0; j3 < 8; ++j3) {
                        if (8 * t + j3 < m)
                            acc_3 += w[j3] * v_fetch[j3][d1];  // insn_9
                    }
                    acc[d1] = acc[d1] * shrink + acc_3;  // insn_9
                }
            }
        }
        if (i < n) {
            #pragma unroll
            for (int d2 = 0; d2 < 16; ++d2)
                o[i * 16 + d2] = acc[d2] / total;  // insn_10
        }
    }
}
