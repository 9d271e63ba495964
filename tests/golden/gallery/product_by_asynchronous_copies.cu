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

extern "C" __global__ void __launch_bounds__(64) product_by_asynchronous_copies(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[3][32][8];
    __shared__ float b_fetch[3][8][32];
    if (32 * by + 31 < n && 32 * bx + 31 < n) {
        float acc[4][4];
        #pragma unroll
        for (int ir = 0; ir < 4; ++ir) {
            #pragma unroll
            for (int jr = 0; jr < 4; ++jr)
                acc[ir][jr] = 0.0f;  // insn
        }
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
            cp_async_4(&a_fetch[0][8 * a_dim_0_outer + ty][tx], &a[(32 * by + 8 * a_dim_0_outer + ty) * n + tx]);  // fetch_a
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer)
            cp_async_4(&b_fetch[0][ty][8 * b_dim_1_outer + tx], &b[ty * n + 32 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
        cp_async_commit();
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
            cp_async_4(&a_fetch[1][8 * a_dim_0_outer + ty][tx], &a[(32 * by + 8 * a_dim_0_outer + ty) * n + tx + 8]);  // fetch_a
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer)
            cp_async_4(&b_fetch[1][ty][8 * b_dim_1_outer + tx], &b[(ty + 8) * n + 32 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
        cp_async_commit();
        const int ko_full = n / 8 - 2;
        for (int ko = 0; ko < ko_full; ++ko) {
            cp_async_wait<1>();
            __syncthreads();
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
                cp_async_4(&a_fetch[(ko + 2) % 3][8 * a_dim_0_outer + ty][tx], &a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * ko + tx + 16]);  // fetch_a
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer)
                cp_async_4(&b_fetch[(ko + 2) % 3][ty][8 * b_dim_1_outer + tx], &b[(8 * ko + ty + 16) * n + 32 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
            cp_async_commit();
            for (int ki = 0; ki < 8; ++ki) {
                #pragma unroll
                for (int ir = 0; ir < 4; ++ir) {
                    #pragma unroll
                    for (int jr = 0; jr < 4; ++jr)
                        acc[ir][jr] += a_fetch[ko % 3][4 * ty + ir][ki] * b_fetch[ko % 3][ki][4 * tx + jr];  // insn
                }
            }
        }
        for (int ko = ko_full; ko < (n + 7) / 8; ++ko) {
            cp_async_wait<1>();
            __syncthreads();
            if (8 * ko + tx + 16 < n) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
                    cp_async_4(&a_fetch[(ko + 2) % 3][8 * a_dim_0_outer + ty][tx], &a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * ko + tx + 16]);  // fetch_a
            }
            if (8 * ko + ty + 16 < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer)
                    cp_async_4(&b_fetch[(ko + 2) % 3][ty][8 * b_dim_1_outer + tx], &b[(8 * ko + ty + 16) * n + 32 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
            }
            cp_async_commit();
            for (int ki = 0; ki < min(8, n - 8 * ko); ++ki) {
                #pragma unroll
                for (int ir = 0; ir < 4; ++ir) {
                    #pragma unroll
                    for (int jr = 0; jr < 4; ++jr)
                        acc[ir][jr] += a_fetch[ko % 3][4 * ty + ir][ki] * b_fetch[ko % 3][ki][4 * tx + jr];  // insn
                }
            }
        }
        #pragma unroll
        for (int ir = 0; ir < 4; ++ir) {
            #pragma unroll
            for (int jr = 0; jr < 4; ++jr)
                c[(32 * by + 4 * ty + ir) * n + 32 * bx + 4 * tx + jr] = acc[ir][jr];  // insn
        }
    } else {
        float acc[4][4];
        if (32 * by + 4 * ty < n && 32 * bx + 4 * tx < n) {
            #pragma unroll
            for (int ir = 0; ir < 4; ++ir) {
                if (32 * by + 4 * ty + ir < n) {
                    #pragma unroll
                    for (int jr = 0; jr < 4; ++jr) {
                        if (32 * bx + 4 * tx + jr < n)
                            acc[ir][jr] = 0.0f;  // insn
                    }
                }
            }
        }
        if (32 * by + ty < n && tx < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                if (32 * by + 8 * a_dim_0_outer + ty < n)
                    cp_async_4(&a_fetch[0][8 * a_dim_0_outer + ty][tx], &a[(32 * by + 8 * a_dim_0_outer + ty) * n + tx]);  // fetch_a
            }
        }
        if (ty < n && 32 * bx + tx < n) {
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer) {
                if (32 * bx + 8 * b_dim_1_outer + tx < n)
                    cp_async_4(&b_fetch[0][ty][8 * b_dim_1_outer + tx], &b[ty * n + 32 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
            }
        }
        cp_async_commit();
        if (32 * by + ty < n && tx + 8 < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                if (32 * by + 8 * a_dim_0_outer + ty < n)
                    cp_async_4(&a_fetch[1][8 * a_dim_0_outer + ty][tx], &a[(32 * by + 8 * a_dim_0_outer + ty) * n + tx + 8]);  // fetch_a
            }
        }
        if (ty + 8 < n && 32 * bx + tx < n) {
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer) {
                if (32 * bx + 8 * b_dim_1_outer + tx < n)
                    cp_async_4(&b_fetch[1][ty][8 * b_dim_1_outer + tx], &b[(ty + 8) * n + 32 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
            }
        }
        cp_async_commit();
        for (int ko = 0; ko < (n + 7) / 8; ++ko) {
            cp_async_wait<1>();
            __syncthreads();
            if (32 * by + ty < n && 8 * ko + tx + 16 < n) {
                #pragma unroll
                for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                    if (32 * by + 8 * a_dim_0_outer + ty < n)
                        cp_async_4(&a_fetch[(ko + 2) % 3][8 * a_dim_0_outer + ty][tx], &a[(32 * by + 8 * a_dim_0_outer + ty) * n + 8 * ko + tx + 16]);  // fetch_a
                }
            }
            if (8 * ko + ty + 16 < n && 32 * bx + tx < n) {
                #pragma unroll
                for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer) {
                    if (32 * bx + 8 * b_dim_1_outer + tx < n)
                        cp_async_4(&b_fetch[(ko + 2) % 3][ty][8 * b_dim_1_outer + tx], &b[(8 * ko + ty + 16) * n + 32 * bx + 8 * b_dim_1_outer + tx]);  // fetch_b
                }
            }
            cp_async_commit();
            if (32 * by + 4 * ty < n && 32 * bx + 4 * tx < n) {
                for (int ki = 0; ki < min(8, n - 8 * ko); ++ki) {
                    #pragma unroll
                    for (int ir = 0; ir < 4; ++ir) {
                        if (32 * by + 4 * ty + ir < n) {
                            #pragma unroll
                            for (int jr = 0; jr < 4; ++jr) {
                                if (32 * bx + 4 * tx + jr < n)
                                    acc[ir][jr] += a_fetch[ko % 3][4 * ty + ir][ki] * b_fetch[ko % 3][ki][4 * tx + jr];  // insn
                            }
                        }
                    }
                }
            }
        }
        if (32 * by + 4 * ty < n && 32 * bx + 4 * tx < n) {
            #pragma unroll
            for (int ir = 0; ir < 4; ++ir) {
                const int i = 32 * by + 4 * ty + ir;
                if (i < n) {
                    #pragma unroll
                    for (int jr = 0; jr < 4; ++jr) {
                        const int j = 32 * bx + 4 * tx + jr;
                        if (j < n)
                            c[i * n + j] = acc[ir][jr];  // insn
                    }
                }
            }
        }
    }
}
