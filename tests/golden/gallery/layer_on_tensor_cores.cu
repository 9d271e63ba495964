// layer_on_tensor_cores computes
//     for s in [0, samples), o in [0, outputs)
//         y[s, o] = max(sum(f, x[s, f]*w[o, f]) + bias[o], 0), f in [0, features)
// Sizes: x: samples x features, w: outputs x features, bias: outputs, y: samples x outputs
// Launch: layer_on_tensor_cores, grid ((outputs + 31) / 32, (samples + 31) / 32), block (64)
// Assumes: features % 2 == 0; features >= 1; outputs >= 1; samples >= 1; x is aligned to 4 bytes; w
//     is aligned to 4 bytes; y overlaps no other array
// Indices have 32 bits: samples*features, outputs*features, outputs, samples*outputs, features +
//     161, samples + 87, outputs + 73 must not exceed 2147483647

#ifndef POLYLOOP_FLOAT16
#define POLYLOOP_FLOAT16
struct float16 { unsigned short bits; };
#endif

#ifndef POLYLOOP_CP_ASYNC_4_ZFILL
#define POLYLOOP_CP_ASYNC_4_ZFILL
static __device__ __forceinline__ void cp_async_4_zfill(void *to, const void *from, bool is_there)
{
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);
    const int size = is_there ? 4 : 0;  // the rest becomes zeros
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
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
#ifndef POLYLOOP_MATRIX_MMA_M16N8K16_F16
#define POLYLOOP_MATRIX_MMA_M16N8K16_F16
static __device__ __forceinline__ void mma_m16n8k16_f16(
    float &d0,
    float &d1,
    float &d2,
    float &d3,
    const unsigned int (&a)[4],
    const unsigned int (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

extern "C" __global__ void __launch_bounds__(64) layer_on_tensor_cores(
    const float16 *__restrict__ x,
    const float16 *__restrict__ w,
    const float *__restrict__ bias,
    float *__restrict__ y,
    int samples,
    int features,
    int outputs)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int oo_lane = tx % 4, lane_mod_8 = tx % 8, t_mod_16 = tx % 16, ss_lane = tx / 4 % 8,
        lane_div_8_mod_2 = tx / 8 % 2, lane_div_16 = tx / 16 % 2, t_div_16 = tx / 16, ws = tx / 32;
    __shared__ __align__(16) float16 x_tile[3][32][40];
    __shared__ __align__(16) float16 w_tile[3][32][40];
    float acc[2][4][2];
    #pragma unroll
    for (int oo_reg = 0; oo_reg < 2; ++oo_reg) {
        #pragma unroll
        for (int to = 0; to < 4; ++to) {
            #pragma unroll
            for (int ss_reg = 0; ss_reg < 2; ++ss_reg)
                acc[oo_reg][to][ss_reg] = 0.0f;
        }
    }
    #pragma unroll
    for (int x_dim_0_outer = 0; x_dim_0_outer < 8; ++x_dim_0_outer) {
        const int x_index = 32 * by + 4 * x_dim_0_outer + t_div_16;
        cp_async_4_zfill(
            &x_tile[0][4 * x_dim_0_outer + t_div_16][2 * t_mod_16],
            &x[x_index * features + 2 * t_mod_16],
            x_index < samples && 2 * t_mod_16 + 1 < features);
    }
    #pragma unroll
    for (int w_dim_0_outer = 0; w_dim_0_outer < 8; ++w_dim_0_outer) {
        const int w_index = 32 * bx + 4 * w_dim_0_outer + t_div_16;
        cp_async_4_zfill(
            &w_tile[0][4 * w_dim_0_outer + t_div_16][2 * t_mod_16],
            &w[w_index * features + 2 * t_mod_16],
            w_index < outputs && 2 * t_mod_16 + 1 < features);
    }
    cp_async_commit();
    #pragma unroll
    for (int x_dim_0_outer = 0; x_dim_0_outer < 8; ++x_dim_0_outer) {
        const int x_index = 32 * by + 4 * x_dim_0_outer + t_div_16;
        cp_async_4_zfill(
            &x_tile[1][4 * x_dim_0_outer + t_div_16][2 * t_mod_16],
            &x[x_index * features + 2 * t_mod_16 + 32],
            x_index < samples && 2 * t_mod_16 + 33 < features);
    }
    #pragma unroll
    for (int w_dim_0_outer = 0; w_dim_0_outer < 8; ++w_dim_0_outer) {
        const int w_index = 32 * bx + 4 * w_dim_0_outer + t_div_16;
        cp_async_4_zfill(
            &w_tile[1][4 * w_dim_0_outer + t_div_16][2 * t_mod_16],
            &w[w_index * features + 2 * t_mod_16 + 32],
            w_index < outputs && 2 * t_mod_16 + 33 < features);
    }
    cp_async_commit();
    for (int bf = 0; bf < (features + 30) / 32; ++bf) {
        cp_async_wait<1>();
        __syncthreads();  // x_tile, w_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int x_dim_0_outer = 0; x_dim_0_outer < 8; ++x_dim_0_outer) {
            const int x_index = 32 * by + 4 * x_dim_0_outer + t_div_16;
            cp_async_4_zfill(
                &x_tile[(bf + 2) % 3][4 * x_dim_0_outer + t_div_16][2 * t_mod_16],
                &x[x_index * features + 32 * bf + 2 * t_mod_16 + 64],
                x_index < samples && 32 * bf + 2 * t_mod_16 + 65 < features);
        }
        #pragma unroll
        for (int w_dim_0_outer = 0; w_dim_0_outer < 8; ++w_dim_0_outer) {
            const int w_index = 32 * bx + 4 * w_dim_0_outer + t_div_16;
            cp_async_4_zfill(
                &w_tile[(bf + 2) % 3][4 * w_dim_0_outer + t_div_16][2 * t_mod_16],
                &w[w_index * features + 32 * bf + 2 * t_mod_16 + 64],
                w_index < outputs && 32 * bf + 2 * t_mod_16 + 65 < features);
        }
        cp_async_commit();
        #pragma unroll
        for (int tf = 0; tf < 2; ++tf) {
            unsigned int a_frag[4];
            ldmatrix_x4(
                a_frag[0],
                a_frag[1],
                a_frag[2],
                a_frag[3],
                &x_tile[bf % 3][16 * ws + t_mod_16][16 * tf + 8 * lane_div_16]);
            unsigned int b_frag[4][2];
            #pragma unroll
            for (int to = 0; to < 4; to += 2)
                ldmatrix_x4(
                    b_frag[to][0],
                    b_frag[to][1],
                    b_frag[to + 1][0],
                    b_frag[to + 1][1],
                    &w_tile[bf % 3][
                        8 * to + 8 * lane_div_16 + lane_mod_8][16 * tf + 8 * lane_div_8_mod_2]);
            #pragma unroll
            for (int to = 0; to < 4; ++to)
                mma_m16n8k16_f16(
                    acc[0][to][0], acc[1][to][0], acc[0][to][1], acc[1][to][1], a_frag, b_frag[to]);
        }
    }
    cp_async_wait<0>();
    if (32 * by + 16 * ws + ss_lane < samples && 32 * bx + 2 * oo_lane < outputs) {
        #pragma unroll
        for (int to = 0; to < 4; ++to) {
            if (32 * bx + 8 * to + 2 * oo_lane < outputs) {
                #pragma unroll
                for (int ss_reg = 0; ss_reg < 2; ++ss_reg) {
                    const int s = 32 * by + 16 * ws + 8 * ss_reg + ss_lane;
                    if (s < samples) {
                        #pragma unroll
                        for (int oo_reg = 0; oo_reg < 2; ++oo_reg) {
                            const int o = 32 * bx + 8 * to + 2 * oo_lane + oo_reg;
                            if (o < outputs)
                                y[s * outputs + o] = fmaxf(acc[oo_reg][to][ss_reg] + bias[o], 0.0f);
                        }
                    }
                }
            }
        }
    }
}
