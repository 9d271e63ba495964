// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[j, k]), k in [0, p)
// Sizes: a: m x p, b: n x p, c: m x n
// Launch: product, grid (n / 64, m / 128), block (256), 73728 bytes of dynamic shared memory
// Assumes: m % 128 == 0; n % 64 == 0; p % 128 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16
//     bytes; b is aligned to 16 bytes; c is aligned to 8 bytes; c overlaps no other array
// Indices have 32 bits: m*p, n*p, m*n, p + 640, m + 216 must not exceed 2147483647

#ifndef POLYLOOP_FLOAT8_E4M3FN
#define POLYLOOP_FLOAT8_E4M3FN
struct float8_e4m3fn { unsigned char bits; };
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
#ifndef POLYLOOP_PUBLISH_STORES
#define POLYLOOP_PUBLISH_STORES
static __device__ __forceinline__ void publish_stores()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_WGMMA_M64N64K32_E4M3_KK
#define POLYLOOP_MATRIX_WGMMA_M64N64K32_E4M3_KK
static __device__ __forceinline__ void wgmma_m64n64k32_e4m3_kk(
    float *d,
    unsigned long long a,
    unsigned long long b)
{
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, "
                     "%6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                     "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                     "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                     "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                     "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                     "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                     "+f"(d[30]), "+f"(d[31])
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
#ifndef POLYLOOP_MATRIX_PRODUCTS_END_32
#define POLYLOOP_MATRIX_PRODUCTS_END_32
static __device__ __forceinline__ void products_end_32(float *d)
{
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                         "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                         "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
                         "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                         "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]),
                         "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                     :: "memory");
}
#endif

extern "C" __global__ void __launch_bounds__(256) product(
    const float8_e4m3fn *__restrict__ a,
    const float8_e4m3fn *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int jj_lane = tx % 4, t_mod_8 = tx % 8, ii_lane_0 = tx / 4 % 8, t_div_8 = tx / 8,
        ii_lane_2 = tx / 32 % 4, wg = tx / 128;
    extern __shared__ __align__(1024) char shared_memory[];
    float8_e4m3fn (&a_tile)[3][128][128] = *(float8_e4m3fn (*)[3][128][128])shared_memory;
    float8_e4m3fn (&b_tile)[3][64][128] = *(float8_e4m3fn (*)[3][64][128])(shared_memory + 49152);
    __align__(8) float acc[8][2][2];
    #pragma unroll
    for (int jj_reg_2 = 0; jj_reg_2 < 8; ++jj_reg_2) {
        #pragma unroll
        for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
            #pragma unroll
            for (int jj_reg_0 = 0; jj_reg_0 < 2; ++jj_reg_0)
                acc[jj_reg_2][ii_reg][jj_reg_0] = 0.0f;
        }
    }
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
        const int offset = 32 * a_dim_0_outer + t_div_8;
        cp_async_16(
            &a_tile[0][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
            &a[(128 * by + offset) * p + 16 * t_mod_8]);
    }
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
        const int offset = 32 * b_dim_0_outer + t_div_8;
        cp_async_16(
            &b_tile[0][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
            &b[(64 * bx + offset) * p + 16 * t_mod_8]);
    }
    cp_async_commit();
    if (16 * t_mod_8 + 143 < p) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int offset = 32 * a_dim_0_outer + t_div_8;
            cp_async_16(
                &a_tile[1][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
                &a[(128 * by + offset) * p + 16 * t_mod_8 + 128]);
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
            const int offset = 32 * b_dim_0_outer + t_div_8;
            cp_async_16(
                &b_tile[1][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
                &b[(64 * bx + offset) * p + 16 * t_mod_8 + 128]);
        }
    }
    cp_async_commit();
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = p / 128 - 2;
    for (int ko = 0; ko < ko_full; ++ko) {
        cp_async_wait<1>();
        publish_stores();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int offset = 32 * a_dim_0_outer + t_div_8;
            cp_async_16(
                &a_tile[(ko + 2) % 3][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
                &a[(128 * by + offset) * p + 128 * ko + 16 * t_mod_8 + 256]);
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
            const int offset = 32 * b_dim_0_outer + t_div_8;
            cp_async_16(
                &b_tile[(ko + 2) % 3][offset][16 * t_mod_8 ^ ((offset & 7) << 4)],
                &b[(64 * bx + offset) * p + 128 * ko + 16 * t_mod_8 + 256]);
        }
        cp_async_commit();
        const unsigned long long a_tile_at = tile_descriptor(&a_tile[ko % 3][64 * wg][0], 0, 1024);
        const unsigned long long b_tile_at = tile_descriptor(&b_tile[ko % 3][0][0], 0, 1024);
        products_begin();
        #pragma unroll
        for (int kk = 0; kk < 4; ++kk)
            wgmma_m64n64k32_e4m3_kk(&acc[0][0][0], a_tile_at + 2 * kk, b_tile_at + 2 * kk);
        products_end_32(&acc[0][0][0]);
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
            wgmma_m64n64k32_e4m3_kk(&acc[0][0][0], a_tile_at_0 + 2 * kk, b_tile_at_0 + 2 * kk);
        products_end_32(&acc[0][0][0]);
    }
    #pragma unroll
    for (int jj_reg_2 = 0; jj_reg_2 < 8; ++jj_reg_2) {
        #pragma unroll
        for (int ii_reg = 0; ii_reg < 2; ++ii_reg)
            *(float2 *)&c[
                (128 * by + 64 * wg + 16 * ii_lane_2 + 8 * ii_reg + ii_lane_0) * n
                + 64 * bx
                + 8 * jj_reg_2
                + 2 * jj_lane] =
                *(const float2 *)&acc[jj_reg_2][ii_reg][0];
    }
}
