// HIP C++ for gfx942: waves of 64 lanes

// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: product, grid ((n / 8 + 7) / 8, (m + 63) / 64), block (256)
// Assumes: n % 8 == 0; p % 8 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 8 bytes; b is aligned to
//     8 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, m + 171, n + 152, p + 112 must not exceed 2147483647

#ifndef POLYLOOP_BFLOAT16
#define POLYLOOP_BFLOAT16
struct bfloat16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_BFLOAT16X4
#define POLYLOOP_BFLOAT16X4
struct __attribute__((aligned(8))) bfloat16x4 { bfloat16 e[4]; };
#endif

#ifndef POLYLOOP_MATRIX_PACK
#define POLYLOOP_MATRIX_PACK
static __device__ __forceinline__ unsigned int pack(unsigned short low, unsigned short high)
{
    return low | (unsigned int)high << 16;
}
#endif
#ifndef POLYLOOP_MATRIX_MFMA_M32N32K8_BF16
#define POLYLOOP_MATRIX_MFMA_M32N32K8_BF16
static __device__ __forceinline__ void mfma_m32n32k8_bf16(
    float &d0,
    float &d1,
    float &d2,
    float &d3,
    float &d4,
    float &d5,
    float &d6,
    float &d7,
    float &d8,
    float &d9,
    float &d10,
    float &d11,
    float &d12,
    float &d13,
    float &d14,
    float &d15,
    const unsigned int (&a)[2],
    const unsigned int (&b)[2])
{
    typedef float sums __attribute__((ext_vector_type(16)));
    typedef short operand __attribute__((ext_vector_type(4)));
    const sums d = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(
        __builtin_bit_cast(operand, a),
        __builtin_bit_cast(operand, b),
        sums{d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12, d13, d14, d15},
        0,
        0,
        0);
    d0 = d[0];
    d1 = d[1];
    d2 = d[2];
    d3 = d[3];
    d4 = d[4];
    d5 = d[5];
    d6 = d[6];
    d7 = d[7];
    d8 = d[8];
    d9 = d[9];
    d10 = d[10];
    d11 = d[11];
    d12 = d[12];
    d13 = d[13];
    d14 = d[14];
    d15 = d[15];
}
#endif

extern "C" __global__ void __launch_bounds__(256) product(
    const bfloat16 *__restrict__ a,
    const bfloat16 *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int a_dim_1_outer = tx % 8, b_dim_1_outer = tx % 16, jj = tx % 32, a_dim_0_inner = tx / 8,
        b_dim_0_inner = tx / 16, ii_lane = tx / 32 % 2, wi = tx / 64 % 2, wj = tx / 128;
    __shared__ __attribute__((aligned(8))) bfloat16 a_tile[2][64][36];
    __shared__ __attribute__((aligned(8))) bfloat16 b_tile[2][32][68];
    float acc[1][1][4][4];
    #pragma unroll
    for (int ii_reg_0 = 0; ii_reg_0 < 4; ++ii_reg_0) {
        #pragma unroll
        for (int ii_reg_2 = 0; ii_reg_2 < 4; ++ii_reg_2)
            acc[0][0][ii_reg_0][ii_reg_2] = 0.0f;
    }
    __attribute__((aligned(8))) bfloat16 a_tile_next[2][4];
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
        const int a_index = 64 * by + 32 * a_dim_0_outer + a_dim_0_inner;
        *(bfloat16x4 *)&a_tile_next[a_dim_0_outer][0] = a_index < m && 4 * a_dim_1_outer + 3 < p
            ? *(const bfloat16x4 *)&a[a_index * p + 4 * a_dim_1_outer]
            : bfloat16x4{};
    }
    __attribute__((aligned(8))) bfloat16 b_tile_next[2][4];
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer)
        *(bfloat16x4 *)&b_tile_next[b_dim_0_outer][0] = 16 * b_dim_0_outer + b_dim_0_inner < p
                && 64 * bx + 4 * b_dim_1_outer + 3 < n
            ? *(const bfloat16x4 *)&b[
                (16 * b_dim_0_outer + b_dim_0_inner) * n + 64 * bx + 4 * b_dim_1_outer]
            : bfloat16x4{};
    for (int ko = 0; ko < (p + 24) / 32; ++ko) {
        #pragma unroll
        for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s)
            *(bfloat16x4 *)&a_tile[ko % 2][
                32 * a_dim_0_outer_s + a_dim_0_inner][4 * a_dim_1_outer] =
                *(const bfloat16x4 *)&a_tile_next[a_dim_0_outer_s][0];
        #pragma unroll
        for (int b_dim_0_outer_s = 0; b_dim_0_outer_s < 2; ++b_dim_0_outer_s)
            *(bfloat16x4 *)&b_tile[ko % 2][
                16 * b_dim_0_outer_s + b_dim_0_inner][4 * b_dim_1_outer] =
                *(const bfloat16x4 *)&b_tile_next[b_dim_0_outer_s][0];
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            const int a_index = 64 * by + 32 * a_dim_0_outer + a_dim_0_inner;
            *(bfloat16x4 *)&a_tile_next[a_dim_0_outer][0] = a_index < m
                    && 32 * ko + 4 * a_dim_1_outer + 35 < p
                ? *(const bfloat16x4 *)&a[a_index * p + 32 * ko + 4 * a_dim_1_outer + 32]
                : bfloat16x4{};
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
            const int b_index = 32 * ko + 16 * b_dim_0_outer + b_dim_0_inner;
            *(bfloat16x4 *)&b_tile_next[b_dim_0_outer][0] = b_index + 32 < p
                    && 64 * bx + 4 * b_dim_1_outer + 3 < n
                ? *(const bfloat16x4 *)&b[(b_index + 32) * n + 64 * bx + 4 * b_dim_1_outer]
                : bfloat16x4{};
        }
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int kk = 0; kk < 4; ++kk) {
            unsigned int a_frag[1][2];
            #pragma unroll
            for (int mi = 0; mi < 1; ++mi) {
                const int a_tile_offset = 32 * mi + 32 * wi + jj;
                a_frag[mi][0] = pack(
                    a_tile[ko % 2][a_tile_offset][8 * kk + 4 * ii_lane].bits,
                    a_tile[ko % 2][a_tile_offset][8 * kk + 4 * ii_lane + 1].bits);
                a_frag[mi][1] = pack(
                    a_tile[ko % 2][a_tile_offset][8 * kk + 4 * ii_lane + 2].bits,
                    a_tile[ko % 2][a_tile_offset][8 * kk + 4 * ii_lane + 3].bits);
            }
            unsigned int b_frag[1][2];
            #pragma unroll
            for (int ni = 0; ni < 1; ++ni) {
                const int b_tile_offset = 32 * ni + 32 * wj + jj;
                b_frag[ni][0] = pack(
                    b_tile[ko % 2][8 * kk + 4 * ii_lane][b_tile_offset].bits,
                    b_tile[ko % 2][8 * kk + 4 * ii_lane + 1][b_tile_offset].bits);
                b_frag[ni][1] = pack(
                    b_tile[ko % 2][8 * kk + 4 * ii_lane + 2][b_tile_offset].bits,
                    b_tile[ko % 2][8 * kk + 4 * ii_lane + 3][b_tile_offset].bits);
            }
            #pragma unroll
            for (int mi = 0; mi < 1; ++mi) {
                #pragma unroll
                for (int ni = 0; ni < 1; ++ni)
                    mfma_m32n32k8_bf16(
                        acc[mi][ni][0][0], acc[mi][ni][1][0], acc[mi][ni][2][0], acc[mi][ni][3][0],
                        acc[mi][ni][0][1], acc[mi][ni][1][1], acc[mi][ni][2][1], acc[mi][ni][3][1],
                        acc[mi][ni][0][2], acc[mi][ni][1][2], acc[mi][ni][2][2], acc[mi][ni][3][2],
                        acc[mi][ni][0][3], acc[mi][ni][1][3], acc[mi][ni][2][3], acc[mi][ni][3][3],
                        a_frag[mi], b_frag[ni]);
            }
        }
    }
    if (64 * by + 32 * wi + 4 * ii_lane < m && 64 * bx + 32 * wj + jj < n) {
        #pragma unroll
        for (int ii_reg_0 = 0; ii_reg_0 < 4; ++ii_reg_0) {
            if (64 * by + 32 * wi + 4 * ii_lane + ii_reg_0 < m) {
                #pragma unroll
                for (int ii_reg_2 = 0; ii_reg_2 < 4; ++ii_reg_2) {
                    const int i = 64 * by + 32 * wi + 8 * ii_reg_2 + 4 * ii_lane + ii_reg_0;
                    if (i < m)
                        c[i * n + 64 * bx + 32 * wj + jj] = acc[0][0][ii_reg_0][ii_reg_2];
                }
            }
        }
    }
}
