// The sum of x over the 4 threads that differ in threadIdx.z only, on each of them; the whole block calls it.
static __device__ __forceinline__ float product_with_a_split_sum_sum_over_z_float32(float x, float *partial)
{
    partial[threadIdx.x + 8 * threadIdx.y + 64 * threadIdx.z] = x;
    __syncthreads();
    x = partial[threadIdx.x + 8 * threadIdx.y];
    #pragma unroll
    for (int n = 1; n < 4; ++n)
        x += partial[threadIdx.x + 8 * threadIdx.y + 64 * n];
    return x;
}

extern "C" __global__ void __launch_bounds__(256) product_with_a_split_sum(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    __shared__ float a_fetch[8][4];
    __shared__ float partial[256];
    if (8 * by + 7 < n && 8 * bx + 7 < n) {
        float acc = 0.0f;  // insn
        const int k_outer_full = n / 4;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            if (tz == 0 && tx < 4)
                a_fetch[ty][tx] = a[i * n + 4 * k_outer + tx];  // fetch_a
            __syncthreads();
            acc += a_fetch[ty][tz] * b[(4 * k_outer + tz) * n + j];  // insn
            __syncthreads();
        }
        for (int k_outer = k_outer_full; k_outer < (n + 3) / 4; ++k_outer) {
            const int k = 4 * k_outer + tz;
            if (tz == 0 && 4 * k_outer + tx < n)
                a_fetch[ty][tx] = a[i * n + 4 * k_outer + tx];  // fetch_a
            __syncthreads();
            if (k < n)
                acc += a_fetch[ty][tz] * b[k * n + j];  // insn
            __syncthreads();
        }
        acc = product_with_a_split_sum_sum_over_z_float32(acc, partial);  // insn
        if (tz == 0)
            c[i * n + j] = acc;  // insn
    } else {
        float acc = 0.0f;  // insn
        for (int k_outer = 0; k_outer < (n + 3) / 4; ++k_outer) {
            const int k = 4 * k_outer + tz;
            if (tz == 0 && i < n && tx < 4 && 4 * k_outer + tx < n)
                a_fetch[ty][tx] = a[i * n + 4 * k_outer + tx];  // fetch_a
            __syncthreads();
            if (k < n && i < n && j < n)
                acc += a_fetch[ty][tz] * b[k * n + j];  // insn
            __syncthreads();
        }
        acc = product_with_a_split_sum_sum_over_z_float32(acc, partial);  // insn
        if (tz == 0 && i < n && j < n)
            c[i * n + j] = acc;  // insn
    }
}
