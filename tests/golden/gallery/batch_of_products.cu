extern "C" __global__ void __launch_bounds__(32) product(const double *__restrict__ a, const double *__restrict__ x, double *__restrict__ y, const double *__restrict__ s, int n, int nb)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    __shared__ double x_fetch[32];
    if (32 * bx + 31 < n) {
        double acc = 0.0;  // insn
        const int j_outer_full = n / 32;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            x_fetch[tx] = x[by * n + 32 * j_outer + tx];  // fetch_x
            __syncwarp();
            for (int j_inner = 0; j_inner < 32; ++j_inner)
                acc += a[by * n * n + i * n + 32 * j_outer + j_inner] * x_fetch[j_inner];  // insn
            __syncwarp();
        }
        for (int j_outer = j_outer_full; j_outer < (n + 31) / 32; ++j_outer) {
            if (32 * j_outer + tx < n)
                x_fetch[tx] = x[by * n + 32 * j_outer + tx];  // fetch_x
            __syncwarp();
            for (int j_inner = 0; j_inner < n - 32 * j_outer; ++j_inner)
                acc += a[by * n * n + i * n + 32 * j_outer + j_inner] * x_fetch[j_inner];  // insn
            __syncwarp();
        }
        y[by * n + i] = s[by] * acc;  // insn
    } else {
        double acc = 0.0;  // insn
        for (int j_outer = 0; j_outer < (n + 31) / 32; ++j_outer) {
            if (32 * j_outer + tx < n)
                x_fetch[tx] = x[by * n + 32 * j_outer + tx];  // fetch_x
            __syncwarp();
            if (i < n) {
                for (int j_inner = 0; j_inner < min(32, n - 32 * j_outer); ++j_inner)
                    acc += a[by * n * n + i * n + 32 * j_outer + j_inner] * x_fetch[j_inner];  // insn
            }
            __syncwarp();
        }
        if (i < n)
            y[by * n + i] = s[by] * acc;  // insn
    }
}
