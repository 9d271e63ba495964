// matmul_pipelined computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_pipelined, grid ((n / 4 + 15) / 16, (m + 63) / 64), block (16, 16)
// Assumes: n % 4 == 0; p % 4 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c is aligned to 16 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, m + 131, n + 127, p + 83 must not exceed 2147483647

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

extern "C" __global__ void __launch_bounds__(256) matmul_pipelined(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int a_dim_1_outer = tx % 4, b_dim_1_outer = tx, a_dim_0 = 4 * ty + tx / 4, b_dim_0 = ty;
    __shared__ __align__(16) float a_fetch[3][64][16];
    __shared__ __align__(16) float b_fetch[3][16][64];
    __align__(16) float acc[4][4];
    #pragma unroll
    for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
        #pragma unroll
        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner)
            acc[i_inner_inner][j_inner_inner] = 0.0f;
    }
    const int a_index = 64 * by + a_dim_0;
    cp_async_16_zfill(
        &a_fetch[0][a_dim_0][4 * a_dim_1_outer],
        &a[a_index * p + 4 * a_dim_1_outer],
        a_index < m && 4 * a_dim_1_outer + 3 < p);
    cp_async_16_zfill(
        &b_fetch[0][b_dim_0][4 * b_dim_1_outer],
        &b[b_dim_0 * n + 64 * bx + 4 * b_dim_1_outer],
        b_dim_0 < p && 64 * bx + 4 * b_dim_1_outer + 3 < n);
    cp_async_commit();
    cp_async_16_zfill(
        &a_fetch[1][a_dim_0][4 * a_dim_1_outer],
        &a[a_index * p + 4 * a_dim_1_outer + 16],
        a_index < m && 4 * a_dim_1_outer + 19 < p);
    cp_async_16_zfill(
        &b_fetch[1][b_dim_0][4 * b_dim_1_outer],
        &b[(b_dim_0 + 16) * n + 64 * bx + 4 * b_dim_1_outer],
        b_dim_0 + 16 < p && 64 * bx + 4 * b_dim_1_outer + 3 < n);
    cp_async_commit();
    for (int k_outer = 0; k_outer < (p + 12) / 16; ++k_outer) {
        cp_async_wait<1>();
        __syncthreads();  // a_fetch, b_fetch: reads follow writes, writes follow reads
        cp_async_16_zfill(
            &a_fetch[(k_outer + 2) % 3][a_dim_0][4 * a_dim_1_outer],
            &a[a_index * p + 16 * k_outer + 4 * a_dim_1_outer + 32],
            a_index < m && 16 * k_outer + 4 * a_dim_1_outer + 35 < p);
        cp_async_16_zfill(
            &b_fetch[(k_outer + 2) % 3][b_dim_0][4 * b_dim_1_outer],
            &b[(16 * k_outer + b_dim_0 + 32) * n + 64 * bx + 4 * b_dim_1_outer],
            16 * k_outer + b_dim_0 + 32 < p && 64 * bx + 4 * b_dim_1_outer + 3 < n);
        cp_async_commit();
        #pragma unroll
        for (int k_inner = 0; k_inner < 16; ++k_inner) {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                const float4 b_fetch_v = *(const float4 *)&b_fetch[k_outer % 3][k_inner][4 * tx];
                acc[i_inner_inner][0] +=
                    a_fetch[k_outer % 3][4 * ty + i_inner_inner][k_inner] * b_fetch_v.x;
                acc[i_inner_inner][1] +=
                    a_fetch[k_outer % 3][4 * ty + i_inner_inner][k_inner] * b_fetch_v.y;
                acc[i_inner_inner][2] +=
                    a_fetch[k_outer % 3][4 * ty + i_inner_inner][k_inner] * b_fetch_v.z;
                acc[i_inner_inner][3] +=
                    a_fetch[k_outer % 3][4 * ty + i_inner_inner][k_inner] * b_fetch_v.w;
            }
        }
    }
    cp_async_wait<0>();
    if (64 * by + 4 * ty < m && 64 * bx + 4 * tx + 3 < n) {
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            const int i = 64 * by + 4 * ty + i_inner_inner;
            if (i < m)
                *(float4 *)&c[i * n + 64 * bx + 4 * tx] = *(const float4 *)&acc[i_inner_inner][0];
        }
    }
}
