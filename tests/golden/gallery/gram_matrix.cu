// gram_matrix computes
//     for i in [0, 12), j in [0, 12)
//         g[i, j] = if(i == j, 1, 0) + sum(k, x[k, i]*x[k, j]), k in [0, n)
// Sizes: x: n x 12, g: 12 x 12
// Launch: gram_matrix, grid (2, 2), block (32)
// Assumes: n >= 1; g is aligned to 16 bytes; g overlaps no other array
// Indices have 32 bits: 12*n, n + 35 must not exceed 2147483647

#ifndef POLYLOOP_MATRIX_MMA_M8N8K4_F64
#define POLYLOOP_MATRIX_MMA_M8N8K4_F64
static __device__ __forceinline__ void mma_m8n8k4_f64(
    double &d0,
    double &d1,
    const double (&a)[1],
    const double (&b)[1])
{
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(d0), "+d"(d1)
                 : "d"(a[0]), "d"(b[0]));
}
#endif

extern "C" __global__ void __launch_bounds__(32) gram_matrix(
    const double *__restrict__ x,
    double *__restrict__ g,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j_inner_lane = tx % 4, i_inner = tx / 4;
    const int i = 8 * bx + i_inner;
    double acc[2];
    #pragma unroll
    for (int j_inner_reg = 0; j_inner_reg < 2; ++j_inner_reg)
        acc[j_inner_reg] = 0.0;
    double a_frag[2][1];
    a_frag[1][0] = 0.0;
    double b_frag[2][1];
    b_frag[1][0] = 0.0;
    for (int k_outer = 0; k_outer < (n + 15) / 16; ++k_outer) {
        if (16 * k_outer + 15 < n && bx == 0 && by == 0) {
            #pragma unroll
            for (int k_inner_outer = 0; k_inner_outer < 4; ++k_inner_outer) {
                const int x_offset = 16 * k_outer + 4 * k_inner_outer + j_inner_lane;
                a_frag[k_inner_outer % 2][0] = x[x_offset * 12 + i];
                b_frag[k_inner_outer % 2][0] = x[x_offset * 12 + 8 * by + i_inner];
                mma_m8n8k4_f64(
                    acc[0],
                    acc[1],
                    a_frag[(k_inner_outer + 1) % 2],
                    b_frag[(k_inner_outer + 1) % 2]);
            }
        } else {
            #pragma unroll
            for (int k_inner_outer = 0; k_inner_outer < 4; ++k_inner_outer) {
                a_frag[k_inner_outer % 2][0] = i < 12
                        && 16 * k_outer + 4 * k_inner_outer + j_inner_lane < n
                    ? x[(16 * k_outer + 4 * k_inner_outer + j_inner_lane) * 12 + i]
                    : 0.0;
                b_frag[k_inner_outer % 2][0] = 8 * by + i_inner < 12
                        && 16 * k_outer + 4 * k_inner_outer + j_inner_lane < n
                    ? x[(16 * k_outer + 4 * k_inner_outer + j_inner_lane) * 12 + 8 * by + i_inner]
                    : 0.0;
                mma_m8n8k4_f64(
                    acc[0],
                    acc[1],
                    a_frag[(k_inner_outer + 1) % 2],
                    b_frag[(k_inner_outer + 1) % 2]);
            }
        }
    }
    mma_m8n8k4_f64(acc[0], acc[1], a_frag[1], b_frag[1]);
    if (i < 12 && 4 * by + j_inner_lane < 6) {
        double2 g_v;
        g_v.x = (i == 8 * by + 2 * j_inner_lane ? 1.0 : 0.0) + acc[0];
        g_v.y = (i == 8 * by + 2 * j_inner_lane + 1 ? 1.0 : 0.0) + acc[1];
        *(double2 *)&g[i * 12 + 8 * by + 2 * j_inner_lane] = g_v;
    }
}
