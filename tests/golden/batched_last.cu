// affine computes
//     for ibatch in [0, nb), i in [0, n)
//         t = s[ibatch]*x[ibatch, i]
//         y[ibatch, i] = t + sum(j, a[i, j]*x[ibatch, j]), j in [0, n)
// Sizes: a: n x n, x: nb x n, y: nb x n, s: nb
// Launch: affine, grid ((n + 3) / 4, nb), block (4)
// Assumes: n >= 0; nb >= 0; y overlaps no other array
// Indices have 32 bits: n*n, nb*n, nb, 2*n + 6, n + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(4) affine(
    const float *__restrict__ a,
    const float *__restrict__ x,
    float *__restrict__ y,
    const float *__restrict__ s,
    int n,
    int nb)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int i = 4 * bx + tx;
    __shared__ float x_fetch[4];
    if (4 * bx + 3 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float t = s[by] * x[by * n + i];
        float acc = 0.0f;
        // Full tiles, without tests; the others begin at j_outer_full.
        const int j_outer_full = n / 4;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            x_fetch[tx] = x[by * n + 4 * j_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            for (int j_inner = 0; j_inner < 4; ++j_inner)
                acc += a[i * n + 4 * j_outer + j_inner] * x_fetch[j_inner];
            __syncwarp();  // x_fetch: writes follow reads
        }
        for (int j_outer = j_outer_full; j_outer < (n + 3) / 4; ++j_outer) {
            if (4 * j_outer + tx < n)
                x_fetch[tx] = x[by * n + 4 * j_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            for (int j_inner = 0; j_inner < n - 4 * j_outer; ++j_inner)
                acc += a[i * n + 4 * j_outer + j_inner] * x_fetch[j_inner];
            __syncwarp();  // x_fetch: writes follow reads
        }
        y[by * n + i] = t + acc;
    } else {
        float acc = 0.0f;
        float t;
        if (i < n)
            t = s[by] * x[by * n + i];
        for (int j_outer = 0; j_outer < (n + 3) / 4; ++j_outer) {
            if (4 * j_outer + tx < n)
                x_fetch[tx] = x[by * n + 4 * j_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            if (i < n) {
                for (int j_inner = 0; j_inner < min(4, n - 4 * j_outer); ++j_inner)
                    acc += a[i * n + 4 * j_outer + j_inner] * x_fetch[j_inner];
            }
            __syncwarp();  // x_fetch: writes follow reads
        }
        if (i < n)
            y[by * n + i] = t + acc;
    }
}
