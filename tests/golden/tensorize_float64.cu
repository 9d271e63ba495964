// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: product, grid (n / 16, m / 32), block (64)
// Assumes: m % 32 == 0; n % 16 == 0; p % 32 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes;
//     b is aligned to 16 bytes; c is aligned to 16 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, p + 104, m + 56 must not exceed 2147483647

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
#ifndef POLYLOOP_MATRIX_MMA_M16N8K16_F64
#define POLYLOOP_MATRIX_MMA_M16N8K16_F64
static __device__ __forceinline__ void mma_m16n8k16_f64(
    double &d0,
    double &d1,
    double &d2,
    double &d3,
    const double (&a)[8],
    const double (&b)[4])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
                 : "+d"(d0), "+d"(d1), "+d"(d2), "+d"(d3)
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]),
                     "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}
#endif

extern "C" __global__ void __launch_bounds__(64) product(
    const double *__restrict__ a,
    const double *__restrict__ b,
    double *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int jj_lane = tx % 4, b_dim_1_outer = tx % 8, a_dim_1_outer = tx % 16,
        ii_lane = tx / 4 % 8, b_dim_0_inner = tx / 8, a_dim_0_inner = tx / 16, w = tx / 32;
    __shared__ __align__(16) double a_tile[2][32][36];
    __shared__ __align__(16) double b_tile[2][32][20];
    __align__(16) double acc[1][2][2][2];
    #pragma unroll
    for (int ni = 0; ni < 2; ++ni) {
        #pragma unroll
        for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
            #pragma unroll
            for (int jj_reg = 0; jj_reg < 2; ++jj_reg)
                acc[0][ni][ii_reg][jj_reg] = 0.0;
        }
    }
    double a_frag[2][1][8];
    #pragma unroll
    for (int mi = 0; mi < 1; ++mi) {
        a_frag[1][mi][0] = 0.0;
        a_frag[1][mi][1] = 0.0;
        a_frag[1][mi][2] = 0.0;
        a_frag[1][mi][3] = 0.0;
        a_frag[1][mi][4] = 0.0;
        a_frag[1][mi][5] = 0.0;
        a_frag[1][mi][6] = 0.0;
        a_frag[1][mi][7] = 0.0;
    }
    double b_frag[2][2][4];
    #pragma unroll
    for (int ni = 0; ni < 2; ++ni) {
        b_frag[1][ni][0] = 0.0;
        b_frag[1][ni][1] = 0.0;
        b_frag[1][ni][2] = 0.0;
        b_frag[1][ni][3] = 0.0;
    }
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 8; ++a_dim_0_outer) {
        const int offset = 4 * a_dim_0_outer + a_dim_0_inner;
        cp_async_16(
            &a_tile[0][offset][2 * a_dim_1_outer], &a[(32 * by + offset) * p + 2 * a_dim_1_outer]);
    }
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 4; ++b_dim_0_outer) {
        const int offset = 8 * b_dim_0_outer + b_dim_0_inner;
        cp_async_16(
            &b_tile[0][offset][2 * b_dim_1_outer], &b[offset * n + 16 * bx + 2 * b_dim_1_outer]);
    }
    cp_async_commit();
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = p / 32 - 1;
    for (int ko = 0; ko < ko_full; ++ko) {
        cp_async_wait<0>();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 8; ++a_dim_0_outer) {
            const int offset = 4 * a_dim_0_outer + a_dim_0_inner;
            cp_async_16(
                &a_tile[(ko + 1) % 2][offset][2 * a_dim_1_outer],
                &a[(32 * by + offset) * p + 32 * ko + 2 * a_dim_1_outer + 32]);
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 4; ++b_dim_0_outer)
            cp_async_16(
                &b_tile[(ko + 1) % 2][8 * b_dim_0_outer + b_dim_0_inner][2 * b_dim_1_outer],
                &b[
                    (32 * ko + 8 * b_dim_0_outer + b_dim_0_inner + 32) * n
                    + 16 * bx
                    + 2 * b_dim_1_outer]);
        cp_async_commit();
        #pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            #pragma unroll
            for (int mi = 0; mi < 1; ++mi) {
                const int a_tile_offset = 16 * mi + 16 * w + ii_lane;
                const int a_tile_offset_0 = 16 * kk + jj_lane;
                a_frag[kk % 2][mi][0] = a_tile[ko % 2][a_tile_offset][a_tile_offset_0];
                a_frag[kk % 2][mi][1] = a_tile[ko % 2][a_tile_offset + 8][a_tile_offset_0];
                a_frag[kk % 2][mi][2] = a_tile[ko % 2][a_tile_offset][a_tile_offset_0 + 4];
                a_frag[kk % 2][mi][3] = a_tile[ko % 2][a_tile_offset + 8][a_tile_offset_0 + 4];
                a_frag[kk % 2][mi][4] = a_tile[ko % 2][a_tile_offset][a_tile_offset_0 + 8];
                a_frag[kk % 2][mi][5] = a_tile[ko % 2][a_tile_offset + 8][a_tile_offset_0 + 8];
                a_frag[kk % 2][mi][6] = a_tile[ko % 2][a_tile_offset][a_tile_offset_0 + 12];
                a_frag[kk % 2][mi][7] = a_tile[ko % 2][a_tile_offset + 8][a_tile_offset_0 + 12];
            }
            #pragma unroll
            for (int ni = 0; ni < 2; ++ni) {
                b_frag[kk % 2][ni][0] = b_tile[ko % 2][16 * kk + jj_lane][8 * ni + ii_lane];
                b_frag[kk % 2][ni][1] = b_tile[ko % 2][16 * kk + jj_lane + 4][8 * ni + ii_lane];
                b_frag[kk % 2][ni][2] = b_tile[ko % 2][16 * kk + jj_lane + 8][8 * ni + ii_lane];
                b_frag[kk % 2][ni][3] = b_tile[ko % 2][16 * kk + jj_lane + 12][8 * ni + ii_lane];
            }
            #pragma unroll
            for (int mi = 0; mi < 1; ++mi) {
                #pragma unroll
                for (int ni = 0; ni < 2; ++ni)
                    mma_m16n8k16_f64(
                        acc[mi][ni][0][0],
                        acc[mi][ni][0][1],
                        acc[mi][ni][1][0],
                        acc[mi][ni][1][1],
                        a_frag[(kk + 1) % 2][mi],
                        b_frag[(kk + 1) % 2][ni]);
            }
        }
    }
    for (int ko = ko_full; ko < p / 32; ++ko) {
        cp_async_wait<0>();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        cp_async_commit();
        #pragma unroll
        for (int kk = 0; kk < 2; ++kk) {
            #pragma unroll
            for (int mi = 0; mi < 1; ++mi) {
                const int a_tile_offset = 16 * mi + 16 * w + ii_lane;
                const int a_tile_offset_0 = 16 * kk + jj_lane;
                a_frag[kk % 2][mi][0] = a_tile[ko % 2][a_tile_offset][a_tile_offset_0];
                a_frag[kk % 2][mi][1] = a_tile[ko % 2][a_tile_offset + 8][a_tile_offset_0];
                a_frag[kk % 2][mi][2] = a_tile[ko % 2][a_tile_offset][a_tile_offset_0 + 4];
                a_frag[kk % 2][mi][3] = a_tile[ko % 2][a_tile_offset + 8][a_tile_offset_0 + 4];
                a_frag[kk % 2][mi][4] = a_tile[ko % 2][a_tile_offset][a_tile_offset_0 + 8];
                a_frag[kk % 2][mi][5] = a_tile[ko % 2][a_tile_offset + 8][a_tile_offset_0 + 8];
                a_frag[kk % 2][mi][6] = a_tile[ko % 2][a_tile_offset][a_tile_offset_0 + 12];
                a_frag[kk % 2][mi][7] = a_tile[ko % 2][a_tile_offset + 8][a_tile_offset_0 + 12];
            }
            #pragma unroll
            for (int ni = 0; ni < 2; ++ni) {
                b_frag[kk % 2][ni][0] = b_tile[ko % 2][16 * kk + jj_lane][8 * ni + ii_lane];
                b_frag[kk % 2][ni][1] = b_tile[ko % 2][16 * kk + jj_lane + 4][8 * ni + ii_lane];
                b_frag[kk % 2][ni][2] = b_tile[ko % 2][16 * kk + jj_lane + 8][8 * ni + ii_lane];
                b_frag[kk % 2][ni][3] = b_tile[ko % 2][16 * kk + jj_lane + 12][8 * ni + ii_lane];
            }
            #pragma unroll
            for (int mi = 0; mi < 1; ++mi) {
                #pragma unroll
                for (int ni = 0; ni < 2; ++ni)
                    mma_m16n8k16_f64(
                        acc[mi][ni][0][0],
                        acc[mi][ni][0][1],
                        acc[mi][ni][1][0],
                        acc[mi][ni][1][1],
                        a_frag[(kk + 1) % 2][mi],
                        b_frag[(kk + 1) % 2][ni]);
            }
        }
    }
    #pragma unroll
    for (int mi = 0; mi < 1; ++mi) {
        #pragma unroll
        for (int ni = 0; ni < 2; ++ni)
            mma_m16n8k16_f64(
                acc[mi][ni][0][0],
                acc[mi][ni][0][1],
                acc[mi][ni][1][0],
                acc[mi][ni][1][1],
                a_frag[1][mi],
                b_frag[1][ni]);
    }
    #pragma unroll
    for (int ni = 0; ni < 2; ++ni) {
        #pragma unroll
        for (int ii_reg = 0; ii_reg < 2; ++ii_reg)
            *(double2 *)&c[
                (32 * by + 16 * w + 8 * ii_reg + ii_lane) * n + 16 * bx + 8 * ni + 2 * jj_lane] =
                *(const double2 *)&acc[0][ni][ii_reg][0];
    }
}
