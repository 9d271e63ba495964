// derivatives_on_elements computes
//     for e in [0, n), i in [0, 20)
//         du[e, i] = sum(j, u[e, j]*d[i, j]), j in [0, 20)
// Sizes: d: 20 x 20, u: n x 20, du: n x 20
// Launch: derivatives_on_elements, grid ((n + 15) / 16), block (64)
// Assumes: n >= 1; du is aligned to 16 bytes; du overlaps no other array
// Indices have 32 bits: 20*n, n + 39 must not exceed 2147483647

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

extern "C" __global__ void __launch_bounds__(64) derivatives_on_elements(
    const double *__restrict__ d,
    const double *__restrict__ u,
    double *__restrict__ du,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i_inner_lane = tx % 4, ee = tx / 4 % 8, w = tx / 32;
    const int e = 16 * bx + 8 * w + ee;
    __align__(16) double acc[2];
    #pragma unroll
    for (int i_outer = 0; i_outer < 3; ++i_outer) {
        if (16 * bx + 8 * w < n) {
            #pragma unroll
            for (int i_inner_reg = 0; i_inner_reg < 2; ++i_inner_reg)
                acc[i_inner_reg] = 0.0;
            if (16 * bx + 8 * w + 7 < n && i_outer < 2) {
                #pragma unroll
                for (int j_outer = 0; j_outer < 5; ++j_outer) {
                    double a_frag[1];
                    a_frag[0] = u[e * 20 + 4 * j_outer + i_inner_lane];
                    double b_frag[1];
                    b_frag[0] = d[(8 * i_outer + ee) * 20 + 4 * j_outer + i_inner_lane];
                    mma_m8n8k4_f64(acc[0], acc[1], a_frag, b_frag);
                }
            } else {
                #pragma unroll
                for (int j_outer = 0; j_outer < 5; ++j_outer) {
                    double a_frag[1];
                    a_frag[0] = e < n ? u[e * 20 + 4 * j_outer + i_inner_lane] : 0.0;
                    double b_frag[1];
                    b_frag[0] = 8 * i_outer + ee < 20
                        ? d[(8 * i_outer + ee) * 20 + 4 * j_outer + i_inner_lane]
                        : 0.0;
                    mma_m8n8k4_f64(acc[0], acc[1], a_frag, b_frag);
                }
            }
        }
        if (e < n && 4 * i_outer + i_inner_lane < 10)
            *(double2 *)&du[e * 20 + 8 * i_outer + 2 * i_inner_lane] = *(const double2 *)&acc[0];
    }
}
