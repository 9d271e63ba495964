// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: product, grid (n / 32, m / 32), block (64)
// Assumes: m % 32 == 0; n % 32 == 0; p % 32 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes;
//     b is aligned to 16 bytes; c is aligned to 8 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, p + 176, m + 56 must not exceed 2147483647

#ifndef POLYLOOP_BFLOAT16
#define POLYLOOP_BFLOAT16
struct bfloat16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_CP_ASYNC_16
#define POLYLOOP_CP_ASYNC_16
static __device__ __forceinline__ void cp_async_16(void *to, const void *from)
{
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(shared), "l"(from) : "memory");
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

extern "C" __global__ void __launch_bounds__(64) product(
    const bfloat16 *__restrict__ a,
    const bfloat16 *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int t_mod_4 = tx % 4, lane_mod_16 = tx % 16, ii_lane = tx / 4 % 8, t_div_4 = tx / 4,
        lane_div_16 = tx / 16 % 2, w = tx / 32;
    __shared__ __align__(16) bfloat16 a_tile[3][32][40];
    __shared__ __align__(16) bfloat16 b_tile[3][32][40];
    __align__(8) float acc[2][2][2][2];
    #pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
        #pragma unroll
        for (int ni = 0; ni < 2; ++ni) {
            #pragma unroll
            for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                #pragma unroll
                for (int jj_reg = 0; jj_reg < 2; ++jj_reg)
                    acc[mi][ni][ii_reg][jj_reg] = 0.0f;
            }
        }
    }
    unsigned int a_frag[2][2][4];
    #pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
        a_frag[1][mi][0] = 0;
        a_frag[1][mi][1] = 0;
        a_frag[1][mi][2] = 0;
        a_frag[1][mi][3] = 0;
    }
    unsigned int b_frag[2][2][2];
    #pragma unroll
    for (int ni = 0; ni < 2; ++ni) {
        b_frag[1][ni][0] = 0;
        b_frag[1][ni][1] = 0;
    }
    #pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
        const int offset = 16 * kk + t_div_4;
        cp_async_16(&a_tile[0][offset][8 * t_mod_4], &a[(32 * by + offset) * p + 8 * t_mod_4]);
        cp_async_16(&b_tile[0][offset][8 * t_mod_4], &b[offset * n + 32 * bx + 8 * t_mod_4]);
    }
    cp_async_commit();
    #pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
        if (8 * t_mod_4 + 39 < p)
            cp_async_16(
                &a_tile[1][16 * kk + t_div_4][8 * t_mod_4],
                &a[(32 * by + 16 * kk + t_div_4) * p + 8 * t_mod_4 + 32]);
        const int position = 16 * kk + t_div_4;
        if (position + 32 < p)
            cp_async_16(
                &b_tile[1][position][8 * t_mod_4], &b[(position + 32) * n + 32 * bx + 8 * t_mod_4]);
    }
    cp_async_commit();
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = p / 32 - 2;
    for (int ko = 0; ko < ko_full; ++ko) {
        cp_async_wait<1>();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            #pragma unroll
            for (int mi = 0; mi < 2; ++mi)
                ldmatrix_x4(
                    a_frag[kk % 2][mi][0],
                    a_frag[kk % 2][mi][1],
                    a_frag[kk % 2][mi][2],
                    a_frag[kk % 2][mi][3],
                    &a_tile[ko % 3][16 * mi + lane_mod_16][16 * kk + 8 * lane_div_16]);
            #pragma unroll
            for (int ni = 0; ni < 2; ni += 2)
                ldmatrix_x4_trans(
                    b_frag[kk % 2][ni][0],
                    b_frag[kk % 2][ni][1],
                    b_frag[kk % 2][ni + 1][0],
                    b_frag[kk % 2][ni + 1][1],
                    &b_tile[ko % 3][16 * kk + lane_mod_16][16 * w + 8 * ni + 8 * lane_div_16]);
            const int offset = 16 * kk + t_div_4;
            cp_async_16(
                &a_tile[(ko + 2) % 3][offset][8 * t_mod_4],
                &a[(32 * by + offset) * p + 32 * ko + 8 * t_mod_4 + 64]);
            cp_async_16(
                &b_tile[(ko + 2) % 3][offset][8 * t_mod_4],
                &b[(32 * ko + 16 * kk + t_div_4 + 64) * n + 32 * bx + 8 * t_mod_4]);
            #pragma unroll
            for (int mi = 0; mi < 2; ++mi) {
                #pragma unroll
                for (int ni = 0; ni < 2; ++ni)
                    mma_m16n8k16_bf16(
                        acc[mi][ni][0][0],
                        acc[mi][ni][0][1],
                        acc[mi][ni][1][0],
                        acc[mi][ni][1][1],
                        a_frag[(kk + 1) % 2][mi],
                        b_frag[(kk + 1) % 2][ni]);
            }
        }
        cp_async_commit();
    }
    for (int ko = max(0, ko_full); ko < p / 32; ++ko) {
        cp_async_wait<1>();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            #pragma unroll
            for (int mi = 0; mi < 2; ++mi)
                ldmatrix_x4(
                    a_frag[kk % 2][mi][0],
                    a_frag[kk % 2][mi][1],
                    a_frag[kk % 2][mi][2],
                    a_frag[kk % 2][mi][3],
                    &a_tile[ko % 3][16 * mi + lane_mod_16][16 * kk + 8 * lane_div_16]);
            #pragma unroll
            for (int ni = 0; ni < 2; ni += 2)
                ldmatrix_x4_trans(
                    b_frag[kk % 2][ni][0],
                    b_frag[kk % 2][ni][1],
                    b_frag[kk % 2][ni + 1][0],
                    b_frag[kk % 2][ni + 1][1],
                    &b_tile[ko % 3][16 * kk + lane_mod_16][16 * w + 8 * ni + 8 * lane_div_16]);
            #pragma unroll
            for (int mi = 0; mi < 2; ++mi) {
                #pragma unroll
                for (int ni = 0; ni < 2; ++ni)
                    mma_m16n8k16_bf16(
                        acc[mi][ni][0][0],
                        acc[mi][ni][0][1],
                        acc[mi][ni][1][0],
                        acc[mi][ni][1][1],
                        a_frag[(kk + 1) % 2][mi],
                        b_frag[(kk + 1) % 2][ni]);
            }
        }
        cp_async_commit();
    }
    #pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
        #pragma unroll
        for (int ni = 0; ni < 2; ++ni)
            mma_m16n8k16_bf16(
                acc[mi][ni][0][0],
                acc[mi][ni][0][1],
                acc[mi][ni][1][0],
                acc[mi][ni][1][1],
                a_frag[1][mi],
                b_frag[1][ni]);
    }
    #pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
        #pragma unroll
        for (int ni = 0; ni < 2; ++ni) {
            #pragma unroll
            for (int ii_reg = 0; ii_reg < 2; ++ii_reg)
                *(float2 *)&c[
                    (32 * by + 16 * mi + 8 * ii_reg + ii_lane) * n
                    + 32 * bx
                    + 16 * w
                    + 8 * ni
                    + 2 * t_mod_4] =
                    *(const float2 *)&acc[mi][ni][ii_reg][0];
        }
    }
}
