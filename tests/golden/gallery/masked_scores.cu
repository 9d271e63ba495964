// masked_scores computes
//     for h in [0, 2), i in [0, n), j in [0, n)
//         s[h, i, j] = if(j <= i, 0.25*sum(d, q[h, i, d]*k[h, j, d]), -1), d in [0, 32)
// Sizes: q: 2 x n x 32, k: 2 x n x 32, s: 2 x n x n
// Launch: masked_scores, grid ((n + 15) / 16, (n + 15) / 16, 2), block (64)
// Assumes: n >= 1; s overlaps no other array
// Indices have 32 bits: 64*n, 2*n*n, n + 41 must not exceed 2147483647

#ifndef POLYLOOP_FLOAT16
#define POLYLOOP_FLOAT16
struct float16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_MATRIX_PACK
#define POLYLOOP_MATRIX_PACK
static __device__ __forceinline__ unsigned int pack(unsigned short low, unsigned short high)
{
    return low | (unsigned int)high << 16;
}
#endif
#ifndef POLYLOOP_MATRIX_MMA_M16N8K16_F16
#define POLYLOOP_MATRIX_MMA_M16N8K16_F16
static __device__ __forceinline__ void mma_m16n8k16_f16(
    float &d0,
    float &d1,
    float &d2,
    float &d3,
    const unsigned int (&a)[4],
    const unsigned int (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

extern "C" __global__ void __launch_bounds__(64) masked_scores(
    const float16 *__restrict__ q,
    const float16 *__restrict__ k,
    float *__restrict__ s,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x;
    const int jj_lane = tx % 4, i_inner_lane = tx / 4 % 8, w = tx / 32;
    if (16 * by + 15 < n && 16 * bx + 15 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc[2][2];
        #pragma unroll
        for (int i_inner_reg = 0; i_inner_reg < 2; ++i_inner_reg) {
            #pragma unroll
            for (int jj_reg = 0; jj_reg < 2; ++jj_reg)
                acc[i_inner_reg][jj_reg] = 0.0f;
        }
        #pragma unroll
        for (int d_outer = 0; d_outer < 2; ++d_outer) {
            unsigned int a_frag[4];
            const int q_offset =
                bz * 32 * n + (16 * by + i_inner_lane) * 32 + 16 * d_outer + 2 * jj_lane;
            a_frag[0] = pack(q[q_offset].bits, q[q_offset + 1].bits);
            const int q_offset_0 =
                bz * 32 * n + (16 * by + i_inner_lane + 8) * 32 + 16 * d_outer + 2 * jj_lane;
            a_frag[1] = pack(q[q_offset_0].bits, q[q_offset_0 + 1].bits);
            a_frag[2] = pack(q[q_offset + 8].bits, q[q_offset + 9].bits);
            a_frag[3] = pack(q[q_offset_0 + 8].bits, q[q_offset_0 + 9].bits);
            unsigned int b_frag[2];
            const int k_offset =
                bz * 32 * n + (16 * bx + 8 * w + i_inner_lane) * 32 + 16 * d_outer + 2 * jj_lane;
            b_frag[0] = pack(k[k_offset].bits, k[k_offset + 1].bits);
            b_frag[1] = pack(k[k_offset + 8].bits, k[k_offset + 9].bits);
            mma_m16n8k16_f16(acc[0][0], acc[0][1], acc[1][0], acc[1][1], a_frag, b_frag);
        }
        #pragma unroll
        for (int i_inner_reg = 0; i_inner_reg < 2; ++i_inner_reg) {
            const int i = 16 * by + 8 * i_inner_reg + i_inner_lane;
            #pragma unroll
            for (int jj_reg = 0; jj_reg < 2; ++jj_reg) {
                const int j = 16 * bx + 8 * w + 2 * jj_lane + jj_reg;
                s[bz * n * n + i * n + j] = j <= i ? 0.25f * acc[i_inner_reg][jj_reg] : -1.0f;
            }
        }
    } else {
        float acc[2][2];
        const int k_index = 16 * bx + 8 * w;
        if (k_index < n) {
            #pragma unroll
            for (int i_inner_reg = 0; i_inner_reg < 2; ++i_inner_reg) {
                #pragma unroll
                for (int jj_reg = 0; jj_reg < 2; ++jj_reg)
                    acc[i_inner_reg][jj_reg] = 0.0f;
            }
            if (16 * by + 15 < n && k_index + 7 < n) {
                #pragma unroll
                for (int d_outer = 0; d_outer < 2; ++d_outer) {
                    unsigned int a_frag[4];
                    const int q_offset =
                        bz * 32 * n + (16 * by + i_inner_lane) * 32 + 16 * d_outer + 2 * jj_lane;
                    a_frag[0] = pack(q[q_offset].bits, q[q_offset + 1].bits);
                    const int q_offset_0 = bz * 32 * n
                        + (16 * by + i_inner_lane + 8) * 32
                        + 16 * d_outer
                        + 2 * jj_lane;
                    a_frag[1] = pack(q[q_offset_0].bits, q[q_offset_0 + 1].bits);
                    a_frag[2] = pack(q[q_offset + 8].bits, q[q_offset + 9].bits);
                    a_frag[3] = pack(q[q_offset_0 + 8].bits, q[q_offset_0 + 9].bits);
                    unsigned int b_frag[2];
                    const int k_offset =
                        bz * 32 * n + (k_index + i_inner_lane) * 32 + 16 * d_outer + 2 * jj_lane;
                    b_frag[0] = pack(k[k_offset].bits, k[k_offset + 1].bits);
                    b_frag[1] = pack(k[k_offset + 8].bits, k[k_offset + 9].bits);
                    mma_m16n8k16_f16(acc[0][0], acc[0][1], acc[1][0], acc[1][1], a_frag, b_frag);
                }
            } else {
                #pragma unroll
                for (int d_outer = 0; d_outer < 2; ++d_outer) {
                    unsigned int a_frag[4];
                    const int q_index = 16 * by + i_inner_lane;
                    a_frag[0] = pack(
                        q_index < n ? q[
                            bz * 32 * n + q_index * 32 + 16 * d_outer + 2 * jj_lane].bits : 0,
                        q_index < n
                            ? q[bz * 32 * n + q_index * 32 + 16 * d_outer + 2 * jj_lane + 1].bits
                            : 0);
                    a_frag[1] = pack(
                        q_index + 8 < n ? q[
                            bz * 32 * n + (q_index + 8) * 32 + 16 * d_outer + 2 * jj_lane].bits : 0,
                        q_index + 8 < n
                            ? q[
                                bz * 32 * n
                                + (q_index + 8) * 32
                                + 16 * d_outer
                                + 2 * jj_lane
                                + 1].bits
                            : 0);
                    a_frag[2] = pack(
                        q_index < n ? q[
                            bz * 32 * n + q_index * 32 + 16 * d_outer + 2 * jj_lane + 8].bits : 0,
                        q_index < n
                            ? q[bz * 32 * n + q_index * 32 + 16 * d_outer + 2 * jj_lane + 9].bits
                            : 0);
                    a_frag[3] = pack(
                        q_index + 8 < n
                        ? q[bz * 32 * n + (q_index + 8) * 32 + 16 * d_outer + 2 * jj_lane + 8].bits
                        : 0,
                        q_index + 8 < n
                            ? q[
                                bz * 32 * n
                                + (q_index + 8) * 32
                                + 16 * d_outer
                                + 2 * jj_lane
                                + 9].bits
                            : 0);
                    unsigned int b_frag[2];
                    const int k_index_0 = k_index + i_inner_lane;
                    b_frag[0] = pack(
                        k_index_0 < n ? k[
                            bz * 32 * n + k_index_0 * 32 + 16 * d_outer + 2 * jj_lane].bits : 0,
                        k_index_0 < n
                            ? k[bz * 32 * n + k_index_0 * 32 + 16 * d_outer + 2 * jj_lane + 1].bits
                            : 0);
                    b_frag[1] = pack(
                        k_index_0 < n ? k[
                            bz * 32 * n + k_index_0 * 32 + 16 * d_outer + 2 * jj_lane + 8].bits : 0,
                        k_index_0 < n
                            ? k[bz * 32 * n + k_index_0 * 32 + 16 * d_outer + 2 * jj_lane + 9].bits
                            : 0);
                    mma_m16n8k16_f16(acc[0][0], acc[0][1], acc[1][0], acc[1][1], a_frag, b_frag);
                }
            }
        }
        if (16 * by + i_inner_lane < n && k_index + 2 * jj_lane < n) {
            #pragma unroll
            for (int i_inner_reg = 0; i_inner_reg < 2; ++i_inner_reg) {
                const int i = 16 * by + 8 * i_inner_reg + i_inner_lane;
                if (i < n) {
                    #pragma unroll
                    for (int jj_reg = 0; jj_reg < 2; ++jj_reg) {
                        const int j = k_index + 2 * jj_lane + jj_reg;
                        if (j < n)
                            s[bz * n * n + i * n + j] =
                                j <= i ? 0.25f * acc[i_inner_reg][jj_reg] : -1.0f;
                    }
                }
            }
        }
    }
}
