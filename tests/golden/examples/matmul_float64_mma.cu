// matmul_float64_mma computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_float64_mma, grid (min(4, (n / 2 + 63) / 64), (m + 127) / 128,
//     (n / 2 + 255) / 256), block (256), 112128 bytes of dynamic shared memory
// Assumes: n % 2 == 0; p % 2 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c is aligned to 16 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, n + 1191, m + 343, p + 84 must not exceed 2147483647

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
#ifndef POLYLOOP_MATRIX_MMA_M16N8K8_F64
#define POLYLOOP_MATRIX_MMA_M16N8K8_F64
static __device__ __forceinline__ void mma_m16n8k8_f64(
    double &d0,
    double &d1,
    double &d2,
    double &d3,
    const double (&a)[4],
    const double (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+d"(d0), "+d"(d1), "+d"(d2), "+d"(d3)
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
#endif

extern "C" __global__ void __launch_bounds__(256) matmul_float64_mma(
    const double *__restrict__ a,
    const double *__restrict__ b,
    double *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x;
    const int jj_lane = tx % 4, a_dim_1_outer = tx % 8, b_dim_1_outer = tx % 64,
        ii_lane = tx / 4 % 8, a_dim_0_inner = tx / 8, wi = tx / 32 % 2, t_div_64 = tx / 64;
    extern __shared__ __align__(16) char shared_memory[];
    double (&a_tile)[3][128][20] = *(double (*)[3][128][20])shared_memory;
    double (&b_tile)[3][16][132] = *(double (*)[3][16][132])(shared_memory + 61440);
    __align__(16) double acc[4][4][2][2];
    if (512 * bz + 128 * bx + 1 < n) {
        #pragma unroll
        for (int mi = 0; mi < 4; ++mi) {
            #pragma unroll
            for (int ni = 0; ni < 4; ++ni) {
                #pragma unroll
                for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                    #pragma unroll
                    for (int jj_reg = 0; jj_reg < 2; ++jj_reg)
                        acc[mi][ni][ii_reg][jj_reg] = 0.0;
                }
            }
        }
        double a_frag[2][4][4];
        #pragma unroll
        for (int mi = 0; mi < 4; ++mi) {
            a_frag[1][mi][0] = 0.0;
            a_frag[1][mi][1] = 0.0;
            a_frag[1][mi][2] = 0.0;
            a_frag[1][mi][3] = 0.0;
        }
        double b_frag[2][4][2];
        #pragma unroll
        for (int ni = 0; ni < 4; ++ni) {
            b_frag[1][ni][0] = 0.0;
            b_frag[1][ni][1] = 0.0;
        }
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int a_index = 128 * by + 32 * a_dim_0_outer + a_dim_0_inner;
            cp_async_16_zfill(
                &a_tile[0][32 * a_dim_0_outer + a_dim_0_inner][2 * a_dim_1_outer],
                &a[a_index * p + 2 * a_dim_1_outer],
                a_index < m && 2 * a_dim_1_outer + 1 < p);
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 4; ++b_dim_0_outer) {
            const int position = 4 * b_dim_0_outer + t_div_64;
            cp_async_16_zfill(
                &b_tile[0][position][2 * b_dim_1_outer],
                &b[position * n + 512 * bz + 128 * bx + 2 * b_dim_1_outer],
                position < p && 512 * bz + 128 * bx + 2 * b_dim_1_outer + 1 < n);
        }
        cp_async_commit();
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int a_index = 128 * by + 32 * a_dim_0_outer + a_dim_0_inner;
            cp_async_16_zfill(
                &a_tile[1][32 * a_dim_0_outer + a_dim_0_inner][2 * a_dim_1_outer],
                &a[a_index * p + 2 * a_dim_1_outer + 16],
                a_index < m && 2 * a_dim_1_outer + 17 < p);
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 4; ++b_dim_0_outer) {
            const int position = 4 * b_dim_0_outer + t_div_64;
            cp_async_16_zfill(
                &b_tile[1][position][2 * b_dim_1_outer],
                &b[(position + 16) * n + 512 * bz + 128 * bx + 2 * b_dim_1_outer],
                position + 16 < p && 512 * bz + 128 * bx + 2 * b_dim_1_outer + 1 < n);
        }
        cp_async_commit();
        for (int ko = 0; ko < (p + 14) / 16; ++ko) {
            cp_async_wait<1>();
            __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                const int a_index = 128 * by + 32 * a_dim_0_outer + a_dim_0_inner;
                cp_async_16_zfill(
                    &a_tile[(ko + 2) % 3][32 * a_dim_0_outer + a_dim_0_inner][2 * a_dim_1_outer],
                    &a[a_index * p + 16 * ko + 2 * a_dim_1_outer + 32],
                    a_index < m && 16 * ko + 2 * a_dim_1_outer + 33 < p);
            }
            #pragma unroll
            for (int b_dim_0_outer = 0; b_dim_0_outer < 4; ++b_dim_0_outer) {
                const int b_index = 16 * ko + 4 * b_dim_0_outer + t_div_64;
                cp_async_16_zfill(
                    &b_tile[(ko + 2) % 3][4 * b_dim_0_outer + t_div_64][2 * b_dim_1_outer],
                    &b[(b_index + 32) * n + 512 * bz + 128 * bx + 2 * b_dim_1_outer],
                    b_index + 32 < p && 512 * bz + 128 * bx + 2 * b_dim_1_outer + 1 < n);
            }
            cp_async_commit();
            #pragma unroll
            for (int kk = 0; kk < 2; ++kk) {
                #pragma unroll
                for (int mi = 0; mi < 4; ++mi) {
                    const int a_tile_offset = 64 * wi + 16 * mi + ii_lane;
                    a_frag[kk % 2][mi][0] = a_tile[ko % 3][a_tile_offset][8 * kk + jj_lane];
                    a_frag[kk % 2][mi][1] = a_tile[ko % 3][a_tile_offset + 8][8 * kk + jj_lane];
                    a_frag[kk % 2][mi][2] = a_tile[ko % 3][a_tile_offset][8 * kk + jj_lane + 4];
                    a_frag[kk % 2][mi][3] = a_tile[ko % 3][a_tile_offset + 8][8 * kk + jj_lane + 4];
                }
                #pragma unroll
                for (int ni = 0; ni < 4; ++ni) {
                    b_frag[kk % 2][ni][0] =
                        b_tile[ko % 3][8 * kk + jj_lane][32 * t_div_64 + 8 * ni + ii_lane];
                    b_frag[kk % 2][ni][1] =
                        b_tile[ko % 3][8 * kk + jj_lane + 4][32 * t_div_64 + 8 * ni + ii_lane];
                }
                #pragma unroll
                for (int mi = 0; mi < 4; ++mi) {
                    #pragma unroll
                    for (int ni = 0; ni < 4; ++ni)
                        mma_m16n8k8_f64(
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
        for (int mi = 0; mi < 4; ++mi) {
            #pragma unroll
            for (int ni = 0; ni < 4; ++ni)
                mma_m16n8k8_f64(
                    acc[mi][ni][0][0],
                    acc[mi][ni][0][1],
                    acc[mi][ni][1][0],
                    acc[mi][ni][1][1],
                    a_frag[1][mi],
                    b_frag[1][ni]);
        }
    }
    cp_async_wait<0>();
    if (128 * by + 64 * wi + ii_lane < m
            && 512 * bz + 128 * bx + 32 * t_div_64 + 2 * jj_lane + 1 < n) {
        #pragma unroll
        for (int mi = 0; mi < 4; ++mi) {
            if (128 * by + 64 * wi + 16 * mi + ii_lane < m) {
                #pragma unroll
                for (int ni = 0; ni < 4; ++ni) {
                    if (512 * bz + 128 * bx + 32 * t_div_64 + 8 * ni + 2 * jj_lane + 1 < n) {
                        #pragma unroll
                        for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                            const int i = 128 * by + 64 * wi + 16 * mi + 8 * ii_reg + ii_lane;
                            if (i < m)
                                *(double2 *)&c[
                                    i * n
                                    + 512 * bz
                                    + 128 * bx
                                    + 32 * t_div_64
                                    + 8 * ni
                                    + 2 * jj_lane] =
                                    *(const double2 *)&acc[mi][ni][ii_reg][0];
                        }
                    }
                }
            }
        }
    }
}
