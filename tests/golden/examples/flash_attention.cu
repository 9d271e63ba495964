// flash_attention computes
//     for i in [0, n)
//         top = -3e+38f
//         total = 0.0f
//         for d in [0, 16)
//             acc[d] = 0.0f
//         for t in [0, (m + 7) // 8)
//             for j in [0, min(8, m - 8*t))
//                 s[j] = scale*sum(c, q[i, c]*k[8*t + j, c]), c in [0, 16)
//             next = max(top, max(j1, s[j1])), j1 in [0, min(8, m - 8*t))
//             shrink = exp(top - next)
//             top = next
//             for j2 in [0, min(8, m - 8*t))
//                 w[j2] = exp(s[j2] - top)
//             total = total*shrink + sum(j3, w[j3]), j3 in [0, min(8, m - 8*t))
//             for d1 in [0, 16)
//                 acc[d1] = acc[d1]*shrink + sum(j3, w[j3]*v[8*t + j3, d1]),
//                     j3 in [0, min(8, m - 8*t))
//         for d2 in [0, 16)
//             o[i, d2] = acc[d2]/total
// Sizes: q: n x 16, o: n x 16, k: m x 16, v: m x 16
// Launch: flash_attention, grid ((n + 63) / 64), block (64)
// Assumes: m >= 1; n >= 1; o overlaps no other array
// Indices have 32 bits: 16*n, 16*m, n + 127, m + 19 must not exceed 2147483647

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern "C" __global__ void __launch_bounds__(64) flash_attention(
    const float *__restrict__ q,
    float *__restrict__ o,
    const float *__restrict__ k,
    const float *__restrict__ v,
    float scale,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int t_mod_16 = tx % 16, t_div_16 = tx / 16;
    const int i = 64 * bx + tx;
    __shared__ float k_fetch[8][16];
    __shared__ float v_fetch[8][16];
    if (64 * bx + 63 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float top = -3e+38f;
        float total = 0.0f;
        float acc[16];
        #pragma unroll
        for (int d = 0; d < 16; ++d)
            acc[d] = 0.0f;
        float q_fetch[16];
        #pragma unroll
        for (int q_dim_1 = 0; q_dim_1 < 16; ++q_dim_1)
            q_fetch[q_dim_1] = q[i * 16 + q_dim_1];
        float s[8];
        float w[8];
        for (int t = 0; t < (m + 7) / 8 - 1; ++t) {
            #pragma unroll
            for (int k_dim_0_outer = 0; k_dim_0_outer < 2; ++k_dim_0_outer)
                k_fetch[4 * k_dim_0_outer + t_div_16][t_mod_16] =
                    k[(8 * t + 4 * k_dim_0_outer + t_div_16) * 16 + t_mod_16];
            __syncthreads();  // k_fetch: reads follow writes; v_fetch: writes follow reads
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                float acc_0 = 0.0f;
                #pragma unroll
                for (int c = 0; c < 16; ++c)
                    acc_0 += q_fetch[c] * k_fetch[j][c];
                s[j] = scale * acc_0;
            }
            float acc_1 = -INFINITY;
            #pragma unroll
            for (int j1 = 0; j1 < 8; ++j1)
                acc_1 = fmaxf(acc_1, s[j1]);
            float next = fmaxf(top, acc_1);
            float shrink = expf(top - next);
            top = next;
            #pragma unroll
            for (int j2 = 0; j2 < 8; ++j2)
                w[j2] = expf(s[j2] - top);
            float acc_2 = 0.0f;
            #pragma unroll
            for (int j3 = 0; j3 < 8; ++j3)
                acc_2 += w[j3];
            total = total * shrink + acc_2;
            #pragma unroll
            for (int v_dim_0_outer = 0; v_dim_0_outer < 2; ++v_dim_0_outer)
                v_fetch[4 * v_dim_0_outer + t_div_16][t_mod_16] =
                    v[(8 * t + 4 * v_dim_0_outer + t_div_16) * 16 + t_mod_16];
            __syncthreads();  // k_fetch: writes follow reads; v_fetch: reads follow writes
            #pragma unroll
            for (int d1 = 0; d1 < 16; ++d1) {
                float acc_3 = 0.0f;
                #pragma unroll
                for (int j3 = 0; j3 < 8; ++j3)
                    acc_3 += w[j3] * v_fetch[j3][d1];
                acc[d1] = acc[d1] * shrink + acc_3;
            }
        }
        for (int t = max(0, (m + 7) / 8 - 1); t < (m + 7) / 8; ++t) {
            if (8 * t + t_div_16 < m) {
                #pragma unroll
                for (int k_dim_0_outer = 0; k_dim_0_outer < 2; ++k_dim_0_outer) {
                    const int k_index = 8 * t + 4 * k_dim_0_outer + t_div_16;
                    if (k_index < m)
                        k_fetch[4 * k_dim_0_outer + t_div_16][t_mod_16] =
                            k[k_index * 16 + t_mod_16];
                }
            }
            __syncthreads();  // k_fetch: reads follow writes; v_fetch: writes follow reads
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                if (8 * t + j < m) {
                    float acc_0 = 0.0f;
                    #pragma unroll
                    for (int c = 0; c < 16; ++c)
                        acc_0 += q_fetch[c] * k_fetch[j][c];
                    s[j] = scale * acc_0;
                }
            }
            float acc_1 = -INFINITY;
            #pragma unroll
            for (int j1 = 0; j1 < 8; ++j1) {
                if (8 * t + j1 < m)
                    acc_1 = fmaxf(acc_1, s[j1]);
            }
            float next = fmaxf(top, acc_1);
            float shrink = expf(top - next);
            top = next;
            #pragma unroll
            for (int j2 = 0; j2 < 8; ++j2) {
                if (8 * t + j2 < m)
                    w[j2] = expf(s[j2] - top);
            }
            float acc_2 = 0.0f;
            #pragma unroll
            for (int j3 = 0; j3 < 8; ++j3) {
                if (8 * t + j3 < m)
                    acc_2 += w[j3];
            }
            total = total * shrink + acc_2;
            if (8 * t + t_div_16 < m) {
                #pragma unroll
                for (int v_dim_0_outer = 0; v_dim_0_outer < 2; ++v_dim_0_outer) {
                    const int v_index = 8 * t + 4 * v_dim_0_outer + t_div_16;
                    if (v_index < m)
                        v_fetch[4 * v_dim_0_outer + t_div_16][t_mod_16] =
                            v[v_index * 16 + t_mod_16];
                }
            }
            __syncthreads();  // k_fetch: writes follow reads; v_fetch: reads follow writes
            #pragma unroll
            for (int d1 = 0; d1 < 16; ++d1) {
                float acc_3 = 0.0f;
                #pragma unroll
                for (int j3 = 0; j3 < 8; ++j3) {
                    if (8 * t + j3 < m)
                        acc_3 += w[j3] * v_fetch[j3][d1];
                }
                acc[d1] = acc[d1] * shrink + acc_3;
            }
        }
        #pragma unroll
        for (int d2 = 0; d2 < 16; ++d2)
            o[i * 16 + d2] = acc[d2] / total;
    } else {
        float top = -3e+38f;
        float total = 0.0f;
        float acc[16];
        float q_fetch[16];
        if (i < n) {
            #pragma unroll
            for (int d = 0; d < 16; ++d)
                acc[d] = 0.0f;
            #pragma unroll
            for (int q_dim_1 = 0; q_dim_1 < 16; ++q_dim_1)
                q_fetch[q_dim_1] = q[i * 16 + q_dim_1];
        }
        float s[8];
        float shrink;
        float w[8];
        for (int t = 0; t < (m + 7) / 8 - 1; ++t) {
            #pragma unroll
            for (int k_dim_0_outer = 0; k_dim_0_outer < 2; ++k_dim_0_outer)
                k_fetch[4 * k_dim_0_outer + t_div_16][t_mod_16] =
                    k[(8 * t + 4 * k_dim_0_outer + t_div_16) * 16 + t_mod_16];
            __syncthreads();  // k_fetch: reads follow writes; v_fetch: writes follow reads
            float acc_1 = -INFINITY;
            float acc_2 = 0.0f;
            if (i < n) {
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    float acc_0 = 0.0f;
                    #pragma unroll
                    for (int c = 0; c < 16; ++c)
                        acc_0 += q_fetch[c] * k_fetch[j][c];
                    s[j] = scale * acc_0;
                }
                #pragma unroll
                for (int j1 = 0; j1 < 8; ++j1)
                    acc_1 = fmaxf(acc_1, s[j1]);
                float next = fmaxf(top, acc_1);
                shrink = expf(top - next);
                top = next;
                #pragma unroll
                for (int j2 = 0; j2 < 8; ++j2)
                    w[j2] = expf(s[j2] - top);
                #pragma unroll
                for (int j3 = 0; j3 < 8; ++j3)
                    acc_2 += w[j3];
                total = total * shrink + acc_2;
            }
            #pragma unroll
            for (int v_dim_0_outer = 0; v_dim_0_outer < 2; ++v_dim_0_outer)
                v_fetch[4 * v_dim_0_outer + t_div_16][t_mod_16] =
                    v[(8 * t + 4 * v_dim_0_outer + t_div_16) * 16 + t_mod_16];
            __syncthreads();  // k_fetch: writes follow reads; v_fetch: reads follow writes
            if (i < n) {
                #pragma unroll
                for (int d1 = 0; d1 < 16; ++d1) {
                    float acc_3 = 0.0f;
                    #pragma unroll
                    for (int j3 = 0; j3 < 8; ++j3)
                        acc_3 += w[j3] * v_fetch[j3][d1];
                    acc[d1] = acc[d1] * shrink + acc_3;
                }
            }
        }
        for (int t = max(0, (m + 7) / 8 - 1); t < (m + 7) / 8; ++t) {
            if (8 * t + t_div_16 < m) {
                #pragma unroll
                for (int k_dim_0_outer = 0; k_dim_0_outer < 2; ++k_dim_0_outer) {
                    const int k_index = 8 * t + 4 * k_dim_0_outer + t_div_16;
                    if (k_index < m)
                        k_fetch[4 * k_dim_0_outer + t_div_16][t_mod_16] =
                            k[k_index * 16 + t_mod_16];
                }
            }
            __syncthreads();  // k_fetch: reads follow writes; v_fetch: writes follow reads
            float acc_1 = -INFINITY;
            float acc_2 = 0.0f;
            if (i < n) {
                #pragma unroll
                for (int j = 0; j < 8; ++j) {
                    if (8 * t + j < m) {
                        float acc_0 = 0.0f;
                        #pragma unroll
                        for (int c = 0; c < 16; ++c)
                            acc_0 += q_fetch[c] * k_fetch[j][c];
                        s[j] = scale * acc_0;
                    }
                }
                #pragma unroll
                for (int j1 = 0; j1 < 8; ++j1) {
                    if (8 * t + j1 < m)
                        acc_1 = fmaxf(acc_1, s[j1]);
                }
                float next = fmaxf(top, acc_1);
                shrink = expf(top - next);
                top = next;
                #pragma unroll
                for (int j2 = 0; j2 < 8; ++j2) {
                    if (8 * t + j2 < m)
                        w[j2] = expf(s[j2] - top);
                }
                #pragma unroll
                for (int j3 = 0; j3 < 8; ++j3) {
                    if (8 * t + j3 < m)
                        acc_2 += w[j3];
                }
                total = total * shrink + acc_2;
            }
            if (8 * t + t_div_16 < m) {
                #pragma unroll
                for (int v_dim_0_outer = 0; v_dim_0_outer < 2; ++v_dim_0_outer) {
                    const int v_index = 8 * t + 4 * v_dim_0_outer + t_div_16;
                    if (v_index < m)
                        v_fetch[4 * v_dim_0_outer + t_div_16][t_mod_16] =
                            v[v_index * 16 + t_mod_16];
                }
            }
            __syncthreads();  // k_fetch: writes follow reads; v_fetch: reads follow writes
            if (i < n) {
                #pragma unroll
                for (int d1 = 0; d1 < 16; ++d1) {
                    float acc_3 = 0.0f;
                    #pragma unroll
                    for (int j3 = 0; j3 < 8; ++j3) {
                        if (8 * t + j3 < m)
                            acc_3 += w[j3] * v_fetch[j3][d1];
                    }
                    acc[d1] = acc[d1] * shrink + acc_3;
                }
            }
        }
        if (i < n) {
            #pragma unroll
            for (int d2 = 0; d2 < 16; ++d2)
                o[i * 16 + d2] = acc[d2] / total;
        }
    }
}
