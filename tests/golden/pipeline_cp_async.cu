// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, l)
// Sizes: a: m x l, b: l x n, c: m x n
// Launch: product, grid (n / 16, m / 16), block (8, 8)
// Assumes: m % 16 == 0; n % 16 == 0; l >= 1; m >= 0; n >= 0; c overlaps no other array
// Indices have 32 bits: m*l, l*n, m*n, l + 40, n + 24, m + 24 must not exceed 2147483647

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

extern "C" __global__ void __launch_bounds__(64) product(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int l,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[3][16][8];
    __shared__ float b_fetch[3][8][16];
    float acc[2][2];
    #pragma unroll
    for (int ir = 0; ir < 2; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 2; ++jr)
            acc[ir][jr] = 0.0f;
    }
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
        cp_async_4_zfill(
            &a_fetch[0][8 * a_dim_0_outer + ty][tx],
            &a[(16 * by + 8 * a_dim_0_outer + ty) * l + tx],
            tx < l);
    #pragma unroll
    for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
        cp_async_4_zfill(
            &b_fetch[0][ty][8 * b_dim_1_outer + tx],
            &b[ty * n + 16 * bx + 8 * b_dim_1_outer + tx],
            ty < l);
    cp_async_commit();
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
        cp_async_4_zfill(
            &a_fetch[1][8 * a_dim_0_outer + ty][tx],
            &a[(16 * by + 8 * a_dim_0_outer + ty) * l + tx + 8],
            tx + 8 < l);
    #pragma unroll
    for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
        cp_async_4_zfill(
            &b_fetch[1][ty][8 * b_dim_1_outer + tx],
            &b[(ty + 8) * n + 16 * bx + 8 * b_dim_1_outer + tx],
            ty + 8 < l);
    cp_async_commit();
    for (int ko = 0; ko < (l + 7) / 8; ++ko) {
        cp_async_wait<1>();
        __syncthreads();  // a_fetch, b_fetch: reads follow writes, writes follow reads
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            cp_async_4_zfill(
                &a_fetch[(ko + 2) % 3][8 * a_dim_0_outer + ty][tx],
                &a[(16 * by + 8 * a_dim_0_outer + ty) * l + 8 * ko + tx + 16],
                8 * ko + tx + 16 < l);
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            cp_async_4_zfill(
                &b_fetch[(ko + 2) % 3][ty][8 * b_dim_1_outer + tx],
                &b[(8 * ko + ty + 16) * n + 16 * bx + 8 * b_dim_1_outer + tx],
                8 * ko + ty + 16 < l);
        cp_async_commit();
        for (int ki = 0; ki < 8; ++ki) {
            #pragma unroll
            for (int ir = 0; ir < 2; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr)
                    acc[ir][jr] +=
                        a_fetch[ko % 3][8 * ir + ty][ki] * b_fetch[ko % 3][ki][8 * jr + tx];
            }
        }
    }
    cp_async_wait<0>();
    #pragma unroll
    for (int ir = 0; ir < 2; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 2; ++jr)
            c[(16 * by + 8 * ir + ty) * n + 16 * bx + 8 * jr + tx] = acc[ir][jr];
    }
}
