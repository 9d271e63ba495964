// matmul_fp8 computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = scale*sum(k, a[i, k]*b[j, k]), k in [0, p)
// Sizes: a: m x p, b: n x p, c: m x n
// Launch: matmul_fp8, grid ((n / 8 + 15) / 16, (m + 127) / 128), block (256),
//     131136 bytes of dynamic shared memory
// Assumes: n % 8 == 0; p % 16 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c is aligned to 4 bytes; c overlaps no other array
// Indices have 32 bits: m*p, n*p, m*n, p + 527, m + 343, n + 257 must not exceed 2147483647

#ifndef POLYLOOP_BFLOAT16
#define POLYLOOP_BFLOAT16
struct bfloat16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_BFLOAT16X2
#define POLYLOOP_BFLOAT16X2
struct __align__(4) bfloat16x2 { bfloat16 e[2]; };
#endif

#ifndef POLYLOOP_FLOAT8_E4M3FN
#define POLYLOOP_FLOAT8_E4M3FN
struct float8_e4m3fn { unsigned char bits; };
#endif

#ifndef POLYLOOP_RING_OPEN
#define POLYLOOP_RING_OPEN
static __device__ __forceinline__ void ring_open(unsigned long long *ring, int slots)
{
    for (int slot = 0; slot < slots; ++slot) {
        const unsigned int barrier = (unsigned int)__cvta_generic_to_shared(ring + slot);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
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
#ifndef POLYLOOP_RING_EXPECT
#define POLYLOOP_RING_EXPECT
static __device__ __forceinline__ void ring_expect(unsigned long long *slot, int bytes)
{
    const unsigned int barrier = (unsigned int)__cvta_generic_to_shared(slot);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
        :: "r"(barrier), "r"(bytes)
        : "memory");
}
#endif
#ifndef POLYLOOP_TENSORMAP
#define POLYLOOP_TENSORMAP
struct __align__(64) TensorMap { unsigned char opaque[128]; };  // CUtensorMap
#endif
#ifndef POLYLOOP_BOX_2D
#define POLYLOOP_BOX_2D
static __device__ __forceinline__ void box_2d(
    void *to,
    const TensorMap *map,
    unsigned long long *slot,
    int x0,
    int x1)
{
    const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
    const unsigned int barrier = (unsigned int)__cvta_generic_to_shared(slot);
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%3, %4}], [%2];"
        :: "r"(place), "l"(map), "r"(barrier), "r"(x0), "r"(x1)
        : "memory");
}
#endif
#ifndef POLYLOOP_RING_WAIT
#define POLYLOOP_RING_WAIT
static __device__ __forceinline__ void ring_wait(
    unsigned long long *ring,
    int slot,
    unsigned int *phases)
{
    const unsigned int barrier = (unsigned int)__cvta_generic_to_shared(ring + slot);
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(barrier), "r"(*phases >> slot & 1) : "memory");
    *phases ^= 1u << slot;
}
#endif
#ifndef POLYLOOP_MATRIX_WGMMA_M64N128K32_E4M3_KK
#define POLYLOOP_MATRIX_WGMMA_M64N128K32_E4M3_KK
static __device__ __forceinline__ void wgmma_m64n128k32_e4m3_kk(
    float *d,
    unsigned long long a,
    unsigned long long b)
{
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, "
                     "%6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                     "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, "
                     "%37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
                     "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, "
                     "1;\n}"
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
#ifndef POLYLOOP_NARROW_BFLOAT16
#define POLYLOOP_NARROW_BFLOAT16
static __device__ __forceinline__ bfloat16 to_bfloat16(float a)
{
    bfloat16 b;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(a));
    return b;
}
#endif

extern "C" __global__ void __launch_bounds__(256) matmul_fp8(
    const float8_e4m3fn *__restrict__ a,
    const float8_e4m3fn *__restrict__ b,
    bfloat16 *__restrict__ c,
    float scale,
    int m,
    int p,
    int n,
    const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap b_map)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int jj_lane = tx % 4, ii_lane_0 = tx / 4 % 8, ii_lane_2 = tx / 32 % 4, wg = tx / 128;
    extern __shared__ __align__(1024) char shared_memory[];
    float8_e4m3fn (&a_tile)[4][128][128] = *(float8_e4m3fn (*)[4][128][128])shared_memory;
    float8_e4m3fn (&b_tile)[4][128][128] = *(float8_e4m3fn (*)[4][128][128])(shared_memory + 65536);
    unsigned long long (&a_tile_ring)[4] = *(unsigned long long (*)[4])(shared_memory + 131072);
    unsigned long long (&b_tile_ring)[4] = *(unsigned long long (*)[4])(shared_memory + 131104);
    if (tx == 0) {
        ring_open(&a_tile_ring[0], 4);
        ring_open(&b_tile_ring[0], 4);
    }
    __syncthreads();  // counters of bytes are ready
    float acc[16][2][2];
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
    if (tx == 0) {
        ring_expect(&a_tile_ring[0], 16384);
        box_2d(&a_tile[0][0][0], &a_map, &a_tile_ring[0], 0, 128 * by);
        ring_expect(&b_tile_ring[0], 16384);
        box_2d(&b_tile[0][0][0], &b_map, &b_tile_ring[0], 0, 128 * bx);
    }
    if (tx == 0 && p >= 144) {
        ring_expect(&a_tile_ring[1], 16384);
        box_2d(&a_tile[1][0][0], &a_map, &a_tile_ring[1], 128, 128 * by);
        ring_expect(&b_tile_ring[1], 16384);
        box_2d(&b_tile[1][0][0], &b_map, &b_tile_ring[1], 128, 128 * bx);
    }
    unsigned int a_tile_phases = 0;
    unsigned int b_tile_phases = 0;
    for (int ko = 0; ko < (p + 112) / 128; ++ko) {
        ring_wait(&a_tile_ring[0], ko % 4, &a_tile_phases);
        ring_wait(&b_tile_ring[0], ko % 4, &b_tile_phases);
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        if (tx == 0 && 128 * ko + 271 < p) {
            ring_expect(&a_tile_ring[(ko + 2) % 4], 16384);
            box_2d(
                &a_tile[(ko + 2) % 4][0][0],
                &a_map,
                &a_tile_ring[(ko + 2) % 4],
                128 * ko + 256,
                128 * by);
            ring_expect(&b_tile_ring[(ko + 2) % 4], 16384);
            box_2d(
                &b_tile[(ko + 2) % 4][0][0],
                &b_map,
                &b_tile_ring[(ko + 2) % 4],
                128 * ko + 256,
                128 * bx);
        }
        const unsigned long long a_tile_at = tile_descriptor(&a_tile[ko % 4][64 * wg][0], 0, 1024);
        const unsigned long long b_tile_at = tile_descriptor(&b_tile[ko % 4][0][0], 0, 1024);
        products_begin();
        #pragma unroll
        for (int kk = 0; kk < 4; ++kk)
            wgmma_m64n128k32_e4m3_kk(&acc[0][0][0], a_tile_at + 2 * kk, b_tile_at + 2 * kk);
        products_commit();
        products_wait_1();
    }
    products_done_64(&acc[0][0][0]);
    if (128 * by + 64 * wg + 16 * ii_lane_2 + ii_lane_0 < m) {
        #pragma unroll
        for (int jj_reg_2 = 0; jj_reg_2 < 16; ++jj_reg_2) {
            if (128 * bx + 8 * jj_reg_2 + 2 * jj_lane + 1 < n) {
                #pragma unroll
                for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                    const int i = 128 * by + 64 * wg + 16 * ii_lane_2 + 8 * ii_reg + ii_lane_0;
                    if (i < m) {
                        bfloat16x2 c_v;
                        c_v.e[0] = to_bfloat16(scale * acc[jj_reg_2][ii_reg][0]);
                        c_v.e[1] = to_bfloat16(scale * acc[jj_reg_2][ii_reg][1]);
                        *(bfloat16x2 *)&c[i * n + 128 * bx + 8 * jj_reg_2 + 2 * jj_lane] = c_v;
                    }
                }
            }
        }
    }
}
