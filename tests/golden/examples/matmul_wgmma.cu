// matmul_wgmma computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_wgmma, grid ((n / 8 + 15) / 16, (m + 127) / 128), block (256),
//     131072 bytes of dynamic shared memory
// Assumes: n % 8 == 0; p % 8 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c is aligned to 8 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, m + 343, p + 336, n + 257 must not exceed 2147483647

#ifndef POLYLOOP_BFLOAT16
#define POLYLOOP_BFLOAT16
struct bfloat16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_MATRIX_PRODUCTS_READY_64
#define POLYLOOP_MATRIX_PRODUCTS_READY_64
static __device__ __forceinline__ void products_ready_64(float *d)
{
    asm volatile(""
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
            "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
            "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
            "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
            "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
            "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]),
            "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
            "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
            "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
            "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]),
            "+f"(d[62]), "+f"(d[63])
        :: "memory");
}
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
#ifndef POLYLOOP_PUBLISH_STORES
#define POLYLOOP_PUBLISH_STORES
static __device__ __forceinline__ void publish_stores()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_WGMMA_M64N128K16_BF16_KJ
#define POLYLOOP_MATRIX_WGMMA_M64N128K16_BF16_KJ
static __device__ __forceinline__ void wgmma_m64n128k16_bf16_kj(
    float *d,
    unsigned long long a,
    unsigned long long b)
{
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, "
                     "%6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                     "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, "
                     "%37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
                     "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, "
                     "1, 0, 1;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                     "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                     "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                     "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                     "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                     "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                     "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
                     "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                     "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]),
                     "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                     "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
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
#ifndef POLYLOOP_MATRIX_PRODUCTS_COMMIT
#define POLYLOOP_MATRIX_PRODUCTS_COMMIT
static __device__ __forceinline__ void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_PRODUCTS_WAIT_1
#define POLYLOOP_MATRIX_PRODUCTS_WAIT_1
static __device__ __forceinline__ void products_wait_1()
{
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
#endif
#ifndef POLYLOOP_MATRIX_PRODUCTS_DONE_64
#define POLYLOOP_MATRIX_PRODUCTS_DONE_64
static __device__ __forceinline__ void products_done_64(float *d)
{
    asm volatile("wgmma.wait_group.sync.aligned 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
            "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
            "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
            "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
            "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
            "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]),
            "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
            "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
            "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
            "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]),
            "+f"(d[62]), "+f"(d[63])
        :: "memory");
}
#endif

extern "C" __global__ void __launch_bounds__(256) matmul_wgmma(
    const bfloat16 *__restrict__ a,
    const bfloat16 *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int jj_lane = tx % 4, a_dim_1_outer = tx % 8, b_dim_1_outer = tx % 16,
        ii_lane_0 = tx / 4 % 8, a_dim_0_inner = tx / 8, b_dim_0_inner = tx / 16,
        ii_lane_2 = tx / 32 % 4, wg = tx / 128;
    extern __shared__ __align__(1024) char shared_memory[];
    bfloat16 (&a_tile)[4][128][64] = *(bfloat16 (*)[4][128][64])shared_memory;
    bfloat16 (&b_tile)[4][2][64][64] = *(bfloat16 (*)[4][2][64][64])(shared_memory + 65536);
    __align__(8) float acc[16][2][2];
    #pragma unroll
    for (int jj_reg_2 = 0; jj_reg_2 < 16; ++jj_reg_2) {
        #pragma unroll
        for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
            #pragma unroll
            for (int jj_reg_0 = 0; jj_reg_0 < 2; ++jj_reg_0)
                acc[jj_reg_2][ii_reg][jj_reg_0] = 0.0f;
        }
    }
    products_ready_64(&acc[0][0][0]);
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
        const int offset = 32 * a_dim_0_outer + a_dim_0_inner;
        cp_async_16_zfill(
            &a_tile[0][offset][8 * a_dim_1_outer ^ ((offset & 7) << 3)],
            &a[(128 * by + offset) * p + 8 * a_dim_1_outer],
            128 * by + 32 * a_dim_0_outer + a_dim_0_inner < m && 8 * a_dim_1_outer + 7 < p);
    }
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 4; ++b_dim_0_outer) {
        const int position = 16 * b_dim_0_outer + b_dim_0_inner;
        cp_async_16_zfill(
            &b_tile[0][b_dim_1_outer / 8][position][
                8 * (b_dim_1_outer % 8) ^ ((position & 7) << 3)],
            &b[position * n + 128 * bx + 8 * b_dim_1_outer],
            position < p && 128 * bx + 8 * b_dim_1_outer + 7 < n);
    }
    cp_async_commit();
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
        const int offset = 32 * a_dim_0_outer + a_dim_0_inner;
        cp_async_16_zfill(
            &a_tile[1][offset][8 * a_dim_1_outer ^ ((offset & 7) << 3)],
            &a[(128 * by + offset) * p + 8 * a_dim_1_outer + 64],
            128 * by + 32 * a_dim_0_outer + a_dim_0_inner < m && 8 * a_dim_1_outer + 71 < p);
    }
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 4; ++b_dim_0_outer) {
        const int position = 16 * b_dim_0_outer + b_dim_0_inner;
        cp_async_16_zfill(
            &b_tile[1][b_dim_1_outer / 8][position][
                8 * (b_dim_1_outer % 8) ^ ((position & 7) << 3)],
            &b[(position + 64) * n + 128 * bx + 8 * b_dim_1_outer],
            position + 64 < p && 128 * bx + 8 * b_dim_1_outer + 7 < n);
    }
    cp_async_commit();
    for (int ko = 0; ko < (p + 56) / 64; ++ko) {
        cp_async_wait<1>();
        publish_stores();
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const int offset = 32 * a_dim_0_outer + a_dim_0_inner;
            cp_async_16_zfill(
                &a_tile[(ko + 2) % 4][offset][8 * a_dim_1_outer ^ ((offset & 7) << 3)],
                &a[(128 * by + offset) * p + 64 * ko + 8 * a_dim_1_outer + 128],
                128 * by + 32 * a_dim_0_outer + a_dim_0_inner < m
                    && 64 * ko + 8 * a_dim_1_outer + 135 < p);
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 4; ++b_dim_0_outer) {
            const int b_index = 64 * ko + 16 * b_dim_0_outer + b_dim_0_inner;
            cp_async_16_zfill(
                &b_tile[(ko + 2) % 4][b_dim_1_outer / 8][16 * b_dim_0_outer + b_dim_0_inner][
                    8 * (b_dim_1_outer % 8) ^ (((16 * b_dim_0_outer + b_dim_0_inner) & 7) << 3)],
                &b[(b_index + 128) * n + 128 * bx + 8 * b_dim_1_outer],
                b_index + 128 < p && 128 * bx + 8 * b_dim_1_outer + 7 < n);
        }
        cp_async_commit();
        const unsigned long long a_tile_at = tile_descriptor(&a_tile[ko % 4][64 * wg][0], 0, 1024);
        const unsigned long long b_tile_at = tile_descriptor(&b_tile[ko % 4][0][0][0], 8192, 1024);
        products_begin();
        #pragma unroll
        for (int kk = 0; kk < 4; ++kk)
            wgmma_m64n128k16_bf16_kj(&acc[0][0][0], a_tile_at + 2 * kk, b_tile_at + 128 * kk);
        products_commit();
        products_wait_1();
    }
    cp_async_wait<0>();
    products_done_64(&acc[0][0][0]);
    if (128 * by + 64 * wg + 16 * ii_lane_2 + ii_lane_0 < m) {
        #pragma unroll
        for (int jj_reg_2 = 0; jj_reg_2 < 16; ++jj_reg_2) {
            if (128 * bx + 8 * jj_reg_2 + 2 * jj_lane + 1 < n) {
                #pragma unroll
                for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                    const int i = 128 * by + 64 * wg + 16 * ii_lane_2 + 8 * ii_reg + ii_lane_0;
                    if (i < m)
                        *(float2 *)&c[i * n + 128 * bx + 8 * jj_reg_2 + 2 * jj_lane] =
                            *(const float2 *)&acc[jj_reg_2][ii_reg][0];
                }
            }
        }
    }
}
