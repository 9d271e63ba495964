// weighted_product_of_integers computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*w[k]*b[k, j]), k in [0, n + 3)
// Sizes: a: n x (n + 3), b: (n + 3) x n, w: (n + 3), c: n x n
// Launch: weighted_product_of_integers, grid ((n + 15) / 16, (n + 15) / 16), block (16, 16)
// Assumes: n >= 1; c overlaps no other array
// Indices have 32 bits: n*(n + 3), (n + 3)*n, n + 3, n*n, n + 50 must not exceed 2147483647

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

extern "C" __global__ void __launch_bounds__(256) weighted_product_of_integers(
    const int *__restrict__ a,
    const int *__restrict__ b,
    const int *__restrict__ w,
    int *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 16 * by + ty, j = 16 * bx + tx;
    __shared__ int a_fetch[2][16][16];
    __shared__ int b_fetch[2][16][16];
    __shared__ int w_fetch[2][16];
    int acc = 0;
    cp_async_4_zfill(&a_fetch[0][ty][tx], &a[i * (n + 3) + tx], i < n && tx <= n + 2);
    cp_async_4_zfill(&b_fetch[0][ty][tx], &b[ty * n + j], ty <= n + 2 && j < n);
    if (ty == 0)
        cp_async_4_zfill(&w_fetch[0][tx], &w[tx], tx <= n + 2);
    cp_async_commit();
    for (int bk = 0; bk < (n + 2) / 16 + 1; ++bk) {
        cp_async_wait<0>();
        __syncthreads();  // a_fetch, b_fetch, w_fetch: reads follow writes, writes follow reads
        cp_async_4_zfill(
            &a_fetch[(bk + 1) % 2][ty][tx],
            &a[i * (n + 3) + 16 * bk + tx + 16],
            i < n && 16 * bk + tx + 13 < n);
        cp_async_4_zfill(
            &b_fetch[(bk + 1) % 2][ty][tx],
            &b[(16 * bk + ty + 16) * n + j],
            16 * bk + ty + 13 < n && j < n);
        if (ty == 0)
            cp_async_4_zfill(
                &w_fetch[(bk + 1) % 2][tx], &w[16 * bk + tx + 16], 16 * bk + tx + 13 < n);
        cp_async_commit();
        for (int tk = 0; tk < 16; ++tk)
            acc += (unsigned int)a_fetch[
                bk % 2][ty][tk] * w_fetch[bk % 2][tk] * b_fetch[bk % 2][tk][tx];
    }
    cp_async_wait<0>();
    if (i < n && j < n)
        c[i * n + j] = acc;
}
