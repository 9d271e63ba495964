// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[j, k]), k in [0, p)
// Sizes: a: m x p, b: n x p, c: m x n
// Launch: product, grid (n / 64, m / 128), block (256), 98368 bytes of dynamic shared memory
// Assumes: m % 128 == 0; n % 64 == 0; p % 64 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16
//     bytes; b is aligned to 16 bytes; c is aligned to 8 bytes; c overlaps no other array
// Indices have 32 bits: m*p, n*p, m*n, p + 319, m + 216 must not exceed 2147483647

#ifndef POLYLOOP_BFLOAT16
#define POLYLOOP_BFLOAT16
struct bfloat16 { unsigned short bits; };
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
#ifndef POLYLOOP_MATRIX_PRODUCTS_READY_32
#define POLYLOOP_MATRIX_PRODUCTS_READY_32
static __device__ __forceinline__ void products_ready_32(float *d)
{
    asm volatile(""
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
            "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
            "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
            "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
            "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
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
#ifndef POLYLOOP_MATRIX_WGMMA_M64N64K16_BF16_KK
#define POLYLOOP_MATRIX_WGMMA_M64N64K16_BF16_KK
static __device__ __forceinline__ void wgmma_m64n64k16_bf16_kk(
    float *d,
    unsigned long long a,
    unsigned long long b)
{
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, "
                     "%6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                     "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, "
                     "0;\n}"
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
#ifndef POLYLOOP_MATRIX_PRODUCTS_DONE_32
#define POLYLOOP_MATRIX_PRODUCTS_DONE_32
static __device__ __forceinline__ void products_done_32(float *d)
{
    asm volatile("wgmma.wait_group.sync.aligned 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
            "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
            "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
            "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
            "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        :: "memory");
}
#endif

extern "C" __global__ void __launch_bounds__(256) product(
    const bfloat16 *__restrict__ a,
    const bfloat16 *__restrict__ b,
    float *__restrict__ c,
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
    bfloat16 (&a_tile)[4][128][64] = *(bfloat16 (*)[4][128][64])shared_memory;
    bfloat16 (&b_tile)[4][64][64] = *(bfloat16 (*)[4][64][64])(shared_memory + 65536);
    unsigned long long (&a_tile_ring)[4] = *(unsigned long long (*)[4])(shared_memory + 98304);
    unsigned long long (&b_tile_ring)[4] = *(unsigned long long (*)[4])(shared_memory + 98336);
    if (tx == 0) {
        ring_open(&a_tile_ring[0], 4);
        ring_open(&b_tile_ring[0], 4);
    }
    __syncthreads();  // counters of bytes are ready
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
    products_ready_32(&acc[0][0][0]);
    if (tx == 0) {
        ring_expect(&a_tile_ring[0], 16384);
        box_2d(&a_tile[0][0][0], &a_map, &a_tile_ring[0], 0, 128 * by);
        ring_expect(&b_tile_ring[0], 8192);
        box_2d(&b_tile[0][0][0], &b_map, &b_tile_ring[0], 0, 64 * bx);
    }
    if (tx == 0 && p >= 128) {
        ring_expect(&a_tile_ring[1], 16384);
        box_2d(&a_tile[1][0][0], &a_map, &a_tile_ring[1], 64, 128 * by);
        ring_expect(&b_tile_ring[1], 8192);
        box_2d(&b_tile[1][0][0], &b_map, &b_tile_ring[1], 64, 64 * bx);
    }
    unsigned int a_tile_phases = 0;
    unsigned int b_tile_phases = 0;
    for (int ko = 0; ko < p / 64; ++ko) {
        ring_wait(&a_tile_ring[0], ko % 4, &a_tile_phases);
        ring_wait(&b_tile_ring[0], ko % 4, &b_tile_phases);
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        if (tx == 0 && 64 * ko + 191 < p) {
            ring_expect(&a_tile_ring[(ko + 2) % 4], 16384);
            box_2d(
                &a_tile[(ko + 2) % 4][0][0],
                &a_map,
                &a_tile_ring[(ko + 2) % 4],
                64 * ko + 128,
                128 * by);
            ring_expect(&b_tile_ring[(ko + 2) % 4], 8192);
            box_2d(
                &b_tile[(ko + 2) % 4][0][0],
                &b_map,
                &b_tile_ring[(ko + 2) % 4],
                64 * ko + 128,
                64 * bx);
        }
        const unsigned long long a_tile_at = tile_descriptor(&a_tile[ko % 4][64 * wg][0], 0, 1024);
        const unsigned long long b_tile_at = tile_descriptor(&b_tile[ko % 4][0][0], 0, 1024);
        products_begin();
        #pragma unroll
        for (int kk = 0; kk < 4; ++kk)
            wgmma_m64n64k16_bf16_kk(&acc[0][0][0], a_tile_at + 2 * kk, b_tile_at + 2 * kk);
        products_commit();
        products_wait_1();
    }
    products_done_32(&acc[0][0][0]);
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
