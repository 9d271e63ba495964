// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, cast(int32, a[i, k])*b[j, k]), k in [0, p)
// Sizes: a: m x p, b: n x p, c: m x n
// Launch: product, grid (n / 8, m / 64), block (128)
// Assumes: m % 64 == 0; n % 8 == 0; p % 128 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes;
//     b is aligned to 16 bytes; c is aligned to 8 bytes; c overlaps no other array
// Indices have 32 bits: m*p, n*p, m*n, p + 640, m + 152 must not exceed 2147483647

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
#ifndef POLYLOOP_PUBLISH_STORES
#define POLYLOOP_PUBLISH_STORES
static __device__ __forceinline__ void publish_stores()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_WGMMA_M64N8K32_S8_KK
#define POLYLOOP_MATRIX_WGMMA_M64N8K32_S8_KK
static __device__ __forceinline__ void wgmma_m64n8k32_s8_kk(
    int *d,
    unsigned long long a,
    unsigned long long b)
{
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {%0, %1, %2, %3}, %4, %5, p;\n}"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "l"(a), "l"(b));
}
#endif
#ifndef POLYLOOP_MATRIX_TILE_DESCRIPTOR
#define POLYLOOP_MATRIX_TILE_DESCRIPTOR
static __device__ __forceinline__ unsigned long long tile_descriptor(
    const void *tile,
    unsigned int panels,
    unsigned int rows)
{
    const unsigned int place = (unsigned int)__cvta_generic_to_shared(tile) & 0x3ffffu;
    return place >> 4
        | (unsigned long long)(panels >> 4) << 16
        | (unsigned long long)(rows >> 4) << 32
        | 1ull << 62;
}
#endif
#ifndef POLYLOOP_MATRIX_PRODUCTS_BEGIN
#define POLYLOOP_MATRIX_PRODUCTS_BEGIN
static __device__ __forceinline__ void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_PRODUCTS_END_4_S32
#define POLYLOOP_MATRIX_PRODUCTS_END_4_S32
static __device__ __forceinline__ void products_end_4_s32(int *d)
{
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) :: "memory");
}
#endif

extern "C" __global__ void __launch_bounds__(128) product(
    const signed char *__restrict__ a,
    const signed char *__restrict__ b,
    int *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int jj_lane = tx % 4, t_mod_8 = tx % 8, ii_lane_0 = tx / 4 % 8, b_dim_0 = tx / 8 % 8,
        a_dim_0_inner = tx / 8, ii_lane_2 = tx / 32, t_div_64 = tx / 64, wg = 0;
    __shared__ __align__(1024) signed char a_tile[3][64][128];
    __shared__ __align__(1024) signed char b_tile[3][8][128];
    __align__(8) int acc[2][2];
    #pragma unroll
    for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
        #pragma unroll
        for (int jj_reg = 0; jj_reg < 2; ++jj_reg)
            acc[ii_reg][jj_reg] = 0;
    }
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
        const int offset = 16 * a_dim_0_outer + a_dim_0_inner;
        cp_async_16(
            &a_tile[0][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
            &a[(64 * by + offset) * p + 16 * t_mod_8]);
    }
    if (t_div_64 == 0)
        cp_async_16(
            &b_tile[0][b_dim_0][16 * t_mod_8 ^ ((b_dim_0 & 7) << 4)],
            &b[(8 * bx + b_dim_0) * p + 16 * t_mod_8]);
    cp_async_commit();
    if (16 * t_mod_8 + 143 < p) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int offset = 16 * a_dim_0_outer + a_dim_0_inner;
            cp_async_16(
                &a_tile[1][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
                &a[(64 * by + offset) * p + 16 * t_mod_8 + 128]);
        }
    }
    if (t_div_64 == 0 && 16 * t_mod_8 + 143 < p)
        cp_async_16(
            &b_tile[1][b_dim_0][16 * t_mod_8 ^ ((b_dim_0 & 7) << 4)],
            &b[(8 * bx + b_dim_0) * p + 16 * t_mod_8 + 128]);
    cp_async_commit();
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = p / 128 - 2;
    for (int ko = 0; ko < ko_full; ++ko) {
        cp_async_wait<1>();
        publish_stores();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int offset = 16 * a_dim_0_outer + a_dim_0_inner;
            cp_async_16(
                &a_tile[(ko + 2) % 3][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
                &a[(64 * by + offset) * p + 128 * ko + 16 * t_mod_8 + 256]);
        }
        if (t_div_64 == 0)
            cp_async_16(
                &b_tile[(ko + 2) % 3][b_dim_0][16 * t_mod_8 ^ ((b_dim_0 & 7) << 4)],
                &b[(8 * bx + b_dim_0) * p + 128 * ko + 16 * t_mod_8 + 256]);
        cp_async_commit();
        const unsigned long long a_tile_at = tile_descriptor(&a_tile[ko % 3][64 * wg][0], 0, 1024);
        const unsigned long long b_tile_at = tile_descriptor(&b_tile[ko % 3][0][0], 0, 1024);
        products_begin();
        #pragma unroll
        for (int kk = 0; kk < 4; ++kk)
            wgmma_m64n8k32_s8_kk(&acc[0][0], a_tile_at + 2 * kk, b_tile_at + 2 * kk);
        products_end_4_s32(&acc[0][0]);
    }
    for (int ko = max(0, ko_full); ko < p / 128; ++ko) {
        cp_async_wait<1>();
        publish_stores();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        cp_async_commit();
        const unsigned long long a_tile_at_0 =
            tile_descriptor(&a_tile[ko % 3][64 * wg][0], 0, 1024);
        const unsigned long long b_tile_at_0 = tile_descriptor(&b_tile[ko % 3][0][0], 0, 1024);
        products_begin();
        #pragma unroll
        for (int kk = 0; kk < 4; ++kk)
            wgmma_m64n8k32_s8_kk(&acc[0][0], a_tile_at_0 + 2 * kk, b_tile_at_0 + 2 * kk);
        products_end_4_s32(&acc[0][0]);
    }
    #pragma unroll
    for (int ii_reg = 0; ii_reg < 2; ++ii_reg)
        *(int2 *)&c[
            (64 * by + 64 * wg + 16 * ii_lane_2 + 8 * ii_reg + ii_lane_0) * n
            + 8 * bx
            + 2 * jj_lane] =
            *(const int2 *)&acc[ii_reg][0];
}
