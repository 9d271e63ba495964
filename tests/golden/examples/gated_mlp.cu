// gated_mlp computes
//     for i in [0, m), j in [0, n)
//         g = sum(k, a[i, k]*gate[k, j]), k in [0, p)
//         u = sum(k, a[i, k]*up[k, j]), k in [0, p)
//         c[i, j] = silu(g)*u
// Sizes: a: m x p, gate: p x n, up: p x n, c: m x n
// Launch: gated_mlp, grid (min(132, max(0, (n / 8 + 7) / 8)*max(0, (m + 63) / 64))), block (128),
//     99328 bytes of dynamic shared memory
// Assumes: n % 8 == 0; p % 8 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; gate is
//     aligned to 16 bytes; up is aligned to 16 bytes; c is aligned to 16 bytes; c overlaps no other
//     array
// Indices have 32 bits: m*p, p*n, m*n, p + 191, m + 151, n + 129 must not exceed 2147483647

#ifndef POLYLOOP_BFLOAT16
#define POLYLOOP_BFLOAT16
struct bfloat16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_BFLOAT16X2
#define POLYLOOP_BFLOAT16X2
struct __align__(4) bfloat16x2 { bfloat16 e[2]; };
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
#ifndef POLYLOOP_BOXES_READ
#define POLYLOOP_BOXES_READ
static __device__ __forceinline__ void boxes_read()
{
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
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
#ifndef POLYLOOP_MATRIX_WGMMA_M64N64K16_BF16_KJ
#define POLYLOOP_MATRIX_WGMMA_M64N64K16_BF16_KJ
static __device__ __forceinline__ void wgmma_m64n64k16_bf16_kj(
    float *d,
    unsigned long long a,
    unsigned long long b)
{
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, "
                     "%6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "
                     "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, "
                     "1;\n}"
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
#ifndef POLYLOOP_NARROW_BFLOAT16
#define POLYLOOP_NARROW_BFLOAT16
static __device__ __forceinline__ bfloat16 to_bfloat16(float a)
{
    bfloat16 b;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(a));
    return b;
}
#endif
#ifndef POLYLOOP_PUBLISH_STORES
#define POLYLOOP_PUBLISH_STORES
static __device__ __forceinline__ void publish_stores()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif
#ifndef POLYLOOP_STORE_BOX_2D
#define POLYLOOP_STORE_BOX_2D
static __device__ __forceinline__ void store_box_2d(
    const TensorMap *map,
    const void *from,
    int x0,
    int x1)
{
    const unsigned int place = (unsigned int)__cvta_generic_to_shared(from);
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(map), "r"(place), "r"(x0), "r"(x1)
        : "memory");
}
#endif

extern "C" __global__ void __launch_bounds__(128) gated_mlp(
    const bfloat16 *__restrict__ a,
    const bfloat16 *__restrict__ gate,
    const bfloat16 *__restrict__ up,
    bfloat16 *__restrict__ c,
    int m,
    int p,
    int n,
    const __grid_constant__ TensorMap c_map,
    const __grid_constant__ TensorMap a_map,
    const __grid_constant__ TensorMap gate_map,
    const __grid_constant__ TensorMap up_map)
{
    const int blocks_x = (n + 56) / 64, blocks_y = (m + 63) / 64;
    const int blocks = blocks_x * blocks_y, panel = min(8, blocks_x) * blocks_y;
    const int tx = threadIdx.x;
    const int jj_lane = tx % 4, ii_lane_0 = tx / 4 % 8, ii_lane_2 = tx / 32, wg = 0;
    extern __shared__ __align__(1024) char shared_memory[];
    bfloat16 (&a_tile)[4][64][64] = *(bfloat16 (*)[4][64][64])shared_memory;
    bfloat16 (&up_tile)[4][64][64] = *(bfloat16 (*)[4][64][64])(shared_memory + 32768);
    unsigned long long (&a_tile_ring)[4] = *(unsigned long long (*)[4])(shared_memory + 65536);
    unsigned long long (&b_tile_ring)[4] = *(unsigned long long (*)[4])(shared_memory + 65568);
    unsigned long long (&up_tile_ring)[4] = *(unsigned long long (*)[4])(shared_memory + 65600);
    bfloat16 (&b_tile)[4][64][64] = *(bfloat16 (*)[4][64][64])(shared_memory + 66560);
    bfloat16 (&c_tile)[1][64][64] = *(bfloat16 (*)[1][64][64])(shared_memory + 91136);
    if (tx == 0) {
        ring_open(&a_tile_ring[0], 4);
        ring_open(&b_tile_ring[0], 4);
        ring_open(&up_tile_ring[0], 4);
    }
    __syncthreads();  // counters of bytes are ready
    if ((int)blockIdx.x < blocks) {
        const int block = blockIdx.x;
        const int first = block / panel * 8, place = block % panel;
        const int width = min(8, blocks_x - first);
        const int bx = first + place % width, by = place / width;
        if (tx == 0) {
            ring_expect(&a_tile_ring[0], 8192);
            box_2d(&a_tile[0][0][0], &a_map, &a_tile_ring[0], 0, 64 * by);
            ring_expect(&b_tile_ring[0], 8192);
            box_2d(&b_tile[0][0][0], &gate_map, &b_tile_ring[0], 64 * bx, 0);
            ring_expect(&up_tile_ring[0], 8192);
            box_2d(&up_tile[0][0][0], &up_map, &up_tile_ring[0], 64 * bx, 0);
            if (p >= 72) {
                ring_expect(&a_tile_ring[1], 8192);
                box_2d(&a_tile[1][0][0], &a_map, &a_tile_ring[1], 64, 64 * by);
                ring_expect(&b_tile_ring[1], 8192);
                box_2d(&b_tile[1][0][0], &gate_map, &b_tile_ring[1], 64 * bx, 64);
                ring_expect(&up_tile_ring[1], 8192);
                box_2d(&up_tile[1][0][0], &up_map, &up_tile_ring[1], 64 * bx, 64);
            }
        }
    }
    unsigned int a_tile_phases = 0;
    unsigned int b_tile_phases = 0;
    unsigned int up_tile_phases = 0;
    for (int block = blockIdx.x; block < blocks; block += gridDim.x) {
        const int first = block / panel * 8, place = block % panel;
        const int width = min(8, blocks_x - first);
        const int bx = first + place % width, by = place / width;
        float acc[8][2][2];
        #pragma unroll
        for (int jj_reg_2 = 0; jj_reg_2 < 8; ++jj_reg_2) {
            #pragma unroll
            for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                #pragma unroll
                for (int jj_reg_0 = 0; jj_reg_0 < 2; ++jj_reg_0)
                    acc[jj_reg_2][ii_reg][jj_reg_0] = 0.0f;  // product_gate
            }
        }
        float acc_0[8][2][2];
        #pragma unroll
        for (int jj_reg_2 = 0; jj_reg_2 < 8; ++jj_reg_2) {
            #pragma unroll
            for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                #pragma unroll
                for (int jj_reg_0 = 0; jj_reg_0 < 2; ++jj_reg_0)
                    acc_0[jj_reg_2][ii_reg][jj_reg_0] = 0.0f;  // product_up
            }
        }
        products_ready_32(&acc[0][0][0]);  // product_gate
        products_ready_32(&acc_0[0][0][0]);  // product_up
        for (int ko = 0; ko < (p + 56) / 64; ++ko) {
            ring_wait(&a_tile_ring[0], ko % 4, &a_tile_phases);
            ring_wait(&b_tile_ring[0], ko % 4, &b_tile_phases);
            ring_wait(&up_tile_ring[0], ko % 4, &up_tile_phases);
            __syncthreads();  // a_tile, b_tile, up_tile: reads follow writes, writes follow reads
            if (tx == 0 && 64 * ko + 135 < p) {
                ring_expect(&a_tile_ring[(ko + 2) % 4], 8192);
                box_2d(
                    &a_tile[(ko + 2) % 4][0][0],
                    &a_map,
                    &a_tile_ring[(ko + 2) % 4],
                    64 * ko + 128,
                    64 * by);
                boxes_read();
                ring_expect(&b_tile_ring[(ko + 2) % 4], 8192);
                box_2d(
                    &b_tile[(ko + 2) % 4][0][0],
                    &gate_map,
                    &b_tile_ring[(ko + 2) % 4],
                    64 * bx,
                    64 * ko + 128);
            }
            const unsigned long long a_tile_at =
                tile_descriptor(&a_tile[ko % 4][64 * wg][0], 0, 1024);
            const unsigned long long b_tile_at = tile_descriptor(&b_tile[ko % 4][0][0], 0, 1024);
            products_begin();  // product_gate
            #pragma unroll
            for (int kk = 0; kk < 4; ++kk)
                // product_gate
                wgmma_m64n64k16_bf16_kj(&acc[0][0][0], a_tile_at + 2 * kk, b_tile_at + 128 * kk);
            products_commit();
            products_wait_1();
            if (tx == 0 && 64 * ko + 135 < p) {
                ring_expect(&up_tile_ring[(ko + 2) % 4], 8192);
                box_2d(
                    &up_tile[(ko + 2) % 4][0][0],
                    &up_map,
                    &up_tile_ring[(ko + 2) % 4],
                    64 * bx,
                    64 * ko + 128);
            }
            const unsigned long long a_tile_at_0 =
                tile_descriptor(&a_tile[ko % 4][64 * wg][0], 0, 1024);
            const unsigned long long up_tile_at = tile_descriptor(&up_tile[ko % 4][0][0], 0, 1024);
            products_begin();  // product_up
            #pragma unroll
            for (int kk = 0; kk < 4; ++kk)
                // product_up
                wgmma_m64n64k16_bf16_kj(
                    &acc_0[0][0][0], a_tile_at_0 + 2 * kk, up_tile_at + 128 * kk);
            products_commit();
            products_wait_1();
        }
        products_done_32(&acc_0[0][0][0]);  // product_up
        products_done_32(&acc[0][0][0]);  // product_gate
        if (tx == 0)
            boxes_read();
        __syncthreads();  // b_tile_storage: others used the storage before
        if (block + (int)gridDim.x < blocks) {
            const int next = block + (int)gridDim.x;
            const int first = next / panel * 8, place = next % panel;
            const int width = min(8, blocks_x - first);
            const int bx = first + place % width, by = place / width;
            if (tx == 0) {
                ring_expect(&a_tile_ring[0], 8192);
                box_2d(&a_tile[0][0][0], &a_map, &a_tile_ring[0], 0, 64 * by);
                ring_expect(&b_tile_ring[0], 8192);
                box_2d(&b_tile[0][0][0], &gate_map, &b_tile_ring[0], 64 * bx, 0);
                ring_expect(&up_tile_ring[0], 8192);
                box_2d(&up_tile[0][0][0], &up_map, &up_tile_ring[0], 64 * bx, 0);
                if (p >= 72) {
                    ring_expect(&a_tile_ring[1], 8192);
                    box_2d(&a_tile[1][0][0], &a_map, &a_tile_ring[1], 64, 64 * by);
                    ring_expect(&b_tile_ring[1], 8192);
                    box_2d(&b_tile[1][0][0], &gate_map, &b_tile_ring[1], 64 * bx, 64);
                    ring_expect(&up_tile_ring[1], 8192);
                    box_2d(&up_tile[1][0][0], &up_map, &up_tile_ring[1], 64 * bx, 64);
                }
            }
        }
        if (64 * by + 16 * ii_lane_2 + ii_lane_0 < m) {
            float g[2];
            float u[2];
            #pragma unroll
            for (int jj_reg_2 = 0; jj_reg_2 < 8; ++jj_reg_2) {
                if (64 * bx + 8 * jj_reg_2 + 2 * jj_lane + 1 < n) {
                    #pragma unroll
                    for (int ii_reg = 0; ii_reg < 2; ++ii_reg) {
                        if (64 * by + 16 * ii_lane_2 + 8 * ii_reg + ii_lane_0 < m) {
                            #pragma unroll
                            for (int jj_reg_0 = 0; jj_reg_0 < 2; ++jj_reg_0)
                                g[jj_reg_0] = acc[jj_reg_2][ii_reg][jj_reg_0];  // product_gate
                            #pragma unroll
                            for (int jj_reg_0 = 0; jj_reg_0 < 2; ++jj_reg_0)
                                u[jj_reg_0] = acc_0[jj_reg_2][ii_reg][jj_reg_0];  // product_up
                            bfloat16x2 c_tile_v;
                            c_tile_v.e[0] = to_bfloat16(g[0] / (1.0f + expf(-g[0])) * u[0]);
                            c_tile_v.e[1] = to_bfloat16(g[1] / (1.0f + expf(-g[1])) * u[1]);
                            *(bfloat16x2 *)&c_tile[0][
                                64 * wg + 16 * ii_lane_2 + 8 * ii_reg + ii_lane_0][
                                (8 * jj_reg_2 + 2 * jj_lane)
                                ^ (
                                    ((64 * wg + 16 * ii_lane_2 + 8 * ii_reg + ii_lane_0) & 7)
                                    << 3)] =
                                c_tile_v;
                        }
                    }
                }
            }
        }
        publish_stores();
        __syncthreads();  // c_tile: reads follow writes
        if (tx == 0)
            store_box_2d(&c_map, &c_tile[0][0][0], 64 * bx, 64 * by);
    }
    if (tx == 0)
        boxes_read();
}
