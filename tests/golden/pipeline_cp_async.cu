static __device__ __forceinline__ void cp_async_4(void *to, const void *from)
{
    const unsigned int shared = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared), "l"(from) : "memory");
}
static __device__ __forceinline__ void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending> static __device__ __forceinline__ void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");
}

extern "C" __global__ void __launch_bounds__(64) product(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int l, int n)
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
            acc[ir][jr] = 0.0f;  // insn
    }
    if (tx < l) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            cp_async_4(&a_fetch[0][8 * a_dim_0_outer + ty][tx], &a[(16 * by + 8 * a_dim_0_outer + ty) * l + tx]);  // fetch_a
    }
    if (ty < l) {
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            cp_async_4(&b_fetch[0][ty][8 * b_dim_1_outer + tx], &b[ty * n + 16 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
    }
    cp_async_commit();
    if (tx + 8 < l) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            cp_async_4(&a_fetch[1][8 * a_dim_0_outer + ty][tx], &a[(16 * by + 8 * a_dim_0_outer + ty) * l + tx + 8]);  // fetch_a
    }
    if (ty + 8 < l) {
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            cp_async_4(&b_fetch[1][ty][8 * b_dim_1_outer + tx], &b[(ty + 8) * n + 16 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
    }
    cp_async_commit();
    const int ko_full = l / 8 - 2;
    for (int ko = 0; ko < ko_full; ++ko) {
        cp_async_wait<1>();
        __syncthreads();
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            cp_async_4(&a_fetch[(ko + 2) % 3][8 * a_dim_0_outer + ty][tx], &a[(16 * by + 8 * a_dim_0_outer + ty) * l + 8 * ko + tx + 16]);  // fetch_a
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            cp_async_4(&b_fetch[(ko + 2) % 3][ty][8 * b_dim_1_outer + tx], &b[(8 * ko + ty + 16) * n + 16 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
        cp_async_commit();
        for (int ki = 0; ki < 8; ++ki) {
            #pragma unroll
            for (int ir = 0; ir < 2; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr)
                    acc[ir][jr] += a_fetch[ko % 3][8 * ir + ty][ki] * b_fetch[ko % 3][ki][8 * jr + tx];  // insn
            }
        }
    }
    for (int ko = max(0, ko_full); ko < (l + 7) / 8; ++ko) {
        cp_async_wait<1>();
        __syncthreads();
        if (8 * ko + tx + 16 < l) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
                cp_async_4(&a_fetch[(ko + 2) % 3][8 * a_dim_0_outer + ty][tx], &a[(16 * by + 8 * a_dim_0_outer + ty) * l + 8 * ko + tx + 16]);  // fetch_a
        }
        if (8 * ko + ty + 16 < l) {
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                cp_async_4(&b_fetch[(ko + 2) % 3][ty][8 * b_dim_1_outer + tx], &b[(8 * ko + ty + 16) * n + 16 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
        }
        cp_async_commit();
        for (int ki = 0; ki < min(8, l - 8 * ko); ++ki) {
            #pragma unroll
            for (int ir = 0; ir < 2; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr)
                    acc[ir][jr] += a_fetch[ko % 3][8 * ir + ty][ki] * b_fetch[ko % 3][ki][8 * jr + tx];  // insn
            }
        }
    }
    #pragma unroll
    for (int ir = 0; ir < 2; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 2; ++jr)
            c[(16 * by + 8 * ir + ty) * n + 16 * bx + 8 * jr + tx] = acc[ir][jr];  // insn
    }
}
