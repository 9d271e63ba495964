// running_sums_of_reversed_rows computes
//     for i in [0, 64)
//         s[i] = 0
//         for r in [0, n)
//             s[i] = s[i] + x[r, 63 - i]
//             y[r, i] = s[i]
// Sizes: x: n x 64, y: n x 64
// Launch: running_sums_of_reversed_rows, grid (1), block (64)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: 64*n, n + 6 must not exceed 2147483647

#ifndef POLYLOOP_CP_ASYNC_4
#define POLYLOOP_CP_ASYNC_4
static __device__ __forceinline__ void cp_async_4(void *to, const void *from)
{
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared), "l"(from) : "memory");
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

extern "C" __global__ void __launch_bounds__(64) running_sums_of_reversed_rows(
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int tx = threadIdx.x;
    __shared__ float x_fetch[4][64];
    float s = 0.0f;
    if (n >= 1) {
        cp_async_4(&x_fetch[0][tx], &x[tx]);
        cp_async_commit();
        if (n >= 2)
            cp_async_4(&x_fetch[1][tx], &x[64 + tx]);
        cp_async_commit();
        if (n >= 3)
            cp_async_4(&x_fetch[2][tx], &x[128 + tx]);
        cp_async_commit();
        // Full tiles, without tests; the others begin at r_full.
        const int r_full = n - 3;
        for (int r = 0; r < r_full; ++r) {
            cp_async_wait<2>();
            __syncthreads();  // x_fetch: reads follow writes, writes follow reads
            cp_async_4(&x_fetch[(r + 3) % 4][tx], &x[(r + 3) * 64 + tx]);
            cp_async_commit();
            s += x_fetch[r % 4][63 - tx];  // add
            y[r * 64 + tx] = s;
        }
        for (int r = max(0, r_full); r < n; ++r) {
            cp_async_wait<2>();
            __syncthreads();  // x_fetch: reads follow writes, writes follow reads
            cp_async_commit();
            s += x_fetch[r % 4][63 - tx];  // add
            y[r * 64 + tx] = s;
        }
    }
}
