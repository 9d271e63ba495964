// matmul_tiled computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_tiled, grid ((n + 15) / 16, (m + 15) / 16), block (16, 16)
// Assumes: m >= 1; n >= 1; p >= 1; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, p + 31, m + 31, n + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) matmul_tiled(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 16 * by + ty, j = 16 * bx + tx;
    __shared__ float a_fetch[16][16];
    __shared__ float b_fetch[16][16];
    if (16 * by + 15 < m && 16 * bx + 15 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        // Full tiles, without tests; the others begin at k_outer_full.
        const int k_outer_full = p / 16;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            a_fetch[ty][tx] = a[i * p + 16 * k_outer + tx];
            b_fetch[ty][tx] = b[(16 * k_outer + ty) * n + j];
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            for (int k_inner = 0; k_inner < 16; ++k_inner)
                acc += a_fetch[ty][k_inner] * b_fetch[k_inner][tx];
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
        }
        for (int k_outer = k_outer_full; k_outer < (p + 15) / 16; ++k_outer) {
            if (16 * k_outer + tx < p)
                a_fetch[ty][tx] = a[i * p + 16 * k_outer + tx];
            if (16 * k_outer + ty < p)
                b_fetch[ty][tx] = b[(16 * k_outer + ty) * n + j];
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            for (int k_inner = 0; k_inner < p - 16 * k_outer; ++k_inner)
                acc += a_fetch[ty][k_inner] * b_fetch[k_inner][tx];
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
        }
        c[i * n + j] = acc;
    } else {
        float acc = 0.0f;
        for (int k_outer = 0; k_outer < (p + 15) / 16; ++k_outer) {
            if (i < m && 16 * k_outer + tx < p)
                a_fetch[ty][tx] = a[i * p + 16 * k_outer + tx];
            if (16 * k_outer + ty < p && j < n)
                b_fetch[ty][tx] = b[(16 * k_outer + ty) * n + j];
            __syncthreads();  // a_fetch, b_fetch: reads follow writes
            if (i < m && j < n) {
                for (int k_inner = 0; k_inner < min(16, p - 16 * k_outer); ++k_inner)
                    acc += a_fetch[ty][k_inner] * b_fetch[k_inner][tx];
            }
            __syncthreads();  // a_fetch, b_fetch: writes follow reads
        }
        if (i < m && j < n)
            c[i * n + j] = acc;
    }
}
