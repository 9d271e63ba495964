// matmul_mma computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_mma, grid ((n / 8 + 7) / 8, (m + 63) / 64), block (128)
// Assumes: n % 8 == 0; p % 8 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c is aligned to 8 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, p + 240, m + 183, n + 161 must not exceed 2147483647

#ifndef POLYLOOP_BFLOAT16
#define POLYLOOP_BFLOAT16
struct bfloat16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_CP_ASYNC_16_ZFILL
#define POLYLOOP_CP_ASYNC_16_ZFILL
static __device__ __forceinline__ void cp_async_16_zfill(void *to, const void *from, bool is_there)
{
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);
    const int size = is_there ? 16 : 0;  // the rest becomes zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(shared), "l"(from), "r"(size)
        : "memory");
}
#endif
#ifndef POLYLOOP_CP_ASYNC_COMMIT
#define POLYLOOP_CP_ASYNC_COMMIT
static __device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
#endif
#ifndef POLYLOOP_CP_ASYNC_WAIT
#define POLYLOOP_CP_ASYNC_WAIT
template <int pending> static __device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_LDMATRIX_X4
#define POLYLOOP_MATRIX_LDMATRIX_X4
static __device__ __forceinline__ void ldmatrix_x4(
    unsigned int &r0,
    unsigned int &r1,
    unsigned int &r2,
    unsigned int &r3,
    const void *row)
{
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(shared) : "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_LDMATRIX_X4_TRANS
#define POLYLOOP_MATRIX_LDMATRIX_X4_TRANS
static __device__ __forceinline__ void ldmatrix_x4_trans(
    unsigned int &r0,
    unsigned int &r1,
    unsigned int &r2,
    unsigned int &r3,
    const void *row)
{
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(shared) : "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_MMA_M16N8K16_BF16
#define POLYLOOP_MATRIX_MMA_M16N8K16_BF16
static __device__ __forceinline__ void mma_m16n8k16_bf16(
    float &d0,
    float &d1,
    float &d2,
    float &d3,
    const unsigned int (&a)[4],
    const unsigned int (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

extern "C" __global__ void __launch_bounds__(128) matmul_mma(
    const bfloat16 *__restrict__ a,
    const bfloat16 *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int t_mod_4 = tx % 4, b_dim_1_outer = tx % 8, lane_mod_16 = tx % 16, ii_lane = tx / 4 % 8,
        a_dim_0_inner = tx / 4, b_dim_0_inner = tx / 8, lane_div_16 = tx / 16 % 2, wi = tx / 32 % 2,
        wj = tx / 64;
    __shared__ __align__(16) bfloat16 a_tile[4][64][40];
    __shared__ __align__(16) bfloat16 b_tile[4][32][72];
    __align__(8) float acc[2][4][2][2];
    #pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
        #pragma unroll
        for (int ni = 0; ni < 4; ++ni) {
            #pragma unroll
            for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                #pragma unroll
                for (int jj_reg = 0; jj_reg < 2; ++jj_reg)
                    acc[mi][ni][ii_reg][jj_reg] = 0.0f;
            }
        }
    }
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
        const int a_index = 64 * by + 32 * a_dim_0_outer + a_dim_0_inner;
        cp_async_16_zfill(
            &a_tile[0][32 * a_dim_0_outer + a_dim_0_inner][8 * t_mod_4],
            &a[a_index * p + 8 * t_mod_4],
            a_index < m && 8 * t_mod_4 + 7 < p);
    }
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
        const int position = 16 * b_dim_0_outer + b_dim_0_inner;
        cp_async_16_zfill(
            &b_tile[0][position][8 * b_dim_1_outer],
            &b[position * n + 64 * bx + 8 * b_dim_1_outer],
            position < p && 64 * bx + 8 * b_dim_1_outer + 7 < n);
    }
    cp_async_commit();
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
        const int a_index = 64 * by + 32 * a_dim_0_outer + a_dim_0_inner;
        cp_async_16_zfill(
            &a_tile[1][32 * a_dim_0_outer + a_dim_0_inner][8 * t_mod_4],
            &a[a_index * p + 8 * t_mod_4 + 32],
            a_index < m && 8 * t_mod_4 + 39 < p);
    }
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
        const int position = 16 * b_dim_0_outer + b_dim_0_inner;
        cp_async_16_zfill(
            &b_tile[1][position][8 * b_dim_1_outer],
            &b[(position + 32) * n + 64 * bx + 8 * b_dim_1_outer],
            position + 32 < p && 64 * bx + 8 * b_dim_1_outer + 7 < n);
    }
    cp_async_commit();
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
        const int a_index = 64 * by + 32 * a_dim_0_outer + a_dim_0_inner;
        cp_async_16_zfill(
            &a_tile[2][32 * a_dim_0_outer + a_dim_0_inner][8 * t_mod_4],
            &a[a_index * p + 8 * t_mod_4 + 64],
            a_index < m && 8 * t_mod_4 + 71 < p);
    }
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
        const int position = 16 * b_dim_0_outer + b_dim_0_inner;
        cp_async_16_zfill(
            &b_tile[2][position][8 * b_dim_1_outer],
            &b[(position + 64) * n + 64 * bx + 8 * b_dim_1_outer],
            position + 64 < p && 64 * bx + 8 * b_dim_1_outer + 7 < n);
    }
    cp_async_commit();
    for (int ko = 0; ko < (p + 24) / 32; ++ko) {
        cp_async_wait<2>();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            const int a_index = 64 * by + 32 * a_dim_0_outer + a_dim_0_inner;
            cp_async_16_zfill(
                &a_tile[(ko + 3) % 4][32 * a_dim_0_outer + a_dim_0_inner][8 * t_mod_4],
                &a[a_index * p + 32 * ko + 8 * t_mod_4 + 96],
                a_index < m && 32 * ko + 8 * t_mod_4 + 103 < p);
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
            const int b_index = 32 * ko + 16 * b_dim_0_outer + b_dim_0_inner;
            cp_async_16_zfill(
                &b_tile[(ko + 3) % 4][16 * b_dim_0_outer + b_dim_0_inner][8 * b_dim_1_outer],
                &b[(b_index + 96) * n + 64 * bx + 8 * b_dim_1_outer],
                b_index + 96 < p && 64 * bx + 8 * b_dim_1_outer + 7 < n);
        }
        cp_async_commit();
        #pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            unsigned int a_frag[2][4];
            #pragma unroll
            for (int mi = 0; mi < 2; ++mi)
                ldmatrix_x4(
                    a_frag[mi][0],
                    a_frag[mi][1],
                    a_frag[mi][2],
                    a_frag[mi][3],
                    &a_tile[ko % 4][32 * wi + 16 * mi + lane_mod_16][16 * kk + 8 * lane_div_16]);
            unsigned int b_frag[4][2];
            #pragma unroll
            for (int ni = 0; ni < 4; ni += 2)
                ldmatrix_x4_trans(
                    b_frag[ni][0],
                    b_frag[ni][1],
                    b_frag[ni + 1][0],
                    b_frag[ni + 1][1],
                    &b_tile[ko % 4][16 * kk + lane_mod_16][32 * wj + 8 * ni + 8 * lane_div_16]);
            #pragma unroll
            for (int mi = 0; mi < 2; ++mi) {
                #pragma unroll
                for (int ni = 0; ni < 4; ++ni)
                    mma_m16n8k16_bf16(
                        acc[mi][ni][0][0],
                        acc[mi][ni][0][1],
                        acc[mi][ni][1][0],
                        acc[mi][ni][1][1],
                        a_frag[mi],
                        b_frag[ni]);
            }
        }
    }
    cp_async_wait<0>();
    if (64 * by + 32 * wi + ii_lane < m && 64 * bx + 32 * wj + 2 * t_mod_4 + 1 < n) {
        #pragma unroll
        for (int mi = 0; mi < 2; ++mi) {
            if (64 * by + 32 * wi + 16 * mi + ii_lane < m) {
                #pragma unroll
                for (int ni = 0; ni < 4; ++ni) {
                    if (64 * bx + 32 * wj + 8 * ni + 2 * t_mod_4 + 1 < n) {
                        #pragma unroll
                        for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                            const int i = 64 * by + 32 * wi + 16 * mi + 8 * ii_reg + ii_lane;
                            if (i < m)
                                *(float2 *)&c[i * n + 64 * bx + 32 * wj + 8 * ni + 2 * t_mod_4] =
                                    *(const float2 *)&acc[mi][ni][ii_reg][0];
                        }
                    }
                }
            }
        }
    }
}
