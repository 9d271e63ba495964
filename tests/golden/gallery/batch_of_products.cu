// product computes
//     for ibatch in [0, nb), i in [0, n)
//         y[ibatch, i] = s[ibatch]*sum(j, a[ibatch, i, j]*x[ibatch, j]), j in [0, n)
// Sizes: a: nb x n x n, x: nb x n, y: nb x n, s: nb
// Launch: product, grid ((n + 31) / 32, nb), block (32)
// Assumes: n >= 0; nb >= 0; y overlaps no other array
// Indices have 32 bits: nb*n*n, nb*n, nb, 2*n + 62, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) product(
    const double *__restrict__ a,
    const double *__restrict__ x,
    double *__restrict__ y,
    const double *__restrict__ s,
    int n,
    int nb)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    __shared__ double x_fetch[32];
    if (32 * bx + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        double acc = 0.0;
        // Full tiles, without tests; the others begin at j_outer_full.
        const int j_outer_full = n / 32;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            x_fetch[tx] = x[by * n + 32 * j_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            for (int j_inner = 0; j_inner < 32; ++j_inner)
                acc += a[by * n * n + i * n + 32 * j_outer + j_inner] * x_fetch[j_inner];
            __syncwarp();  // x_fetch: writes follow reads
        }
        for (int j_outer = j_outer_full; j_outer < (n + 31) / 32; ++j_outer) {
            if (32 * j_outer + tx < n)
                x_fetch[tx] = x[by * n + 32 * j_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            for (int j_inner = 0; j_inner < n - 32 * j_outer; ++j_inner)
                acc += a[by * n * n + i * n + 32 * j_outer + j_inner] * x_fetch[j_inner];
            __syncwarp();  // x_fetch: writes follow reads
        }
        y[by * n + i] = s[by] * acc;
    } else {
        double acc = 0.0;
        for (int j_outer = 0; j_outer < (n + 31) / 32; ++j_outer) {
            if (32 * j_outer + tx < n)
                x_fetch[tx] = x[by * n + 32 * j_outer + tx];
            __syncwarp();  // x_fetch: reads follow writes
            if (i < n) {
                for (int j_inner = 0; j_inner < min(32, n - 32 * j_outer); ++j_inner)
                    acc += a[by * n * n + i * n + 32 * j_outer + j_inner] * x_fetch[j_inner];
            }
            __syncwarp();  // x_fetch: writes follow reads
        }
        if (i < n)
            y[by * n + i] = s[by] * acc;
    }
}
