extern "C" __global__ void __launch_bounds__(4) affine(const float *__restrict__ a, const float *__restrict__ x, float *__restrict__ y, const float *__restrict__ s, int n, int nb)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int i = 4 * bx + tx;
    __shared__ float x_fetch[4];
    if (4 * bx + 3 < n) {
        float t = s[by] * x[by * n + i];  // insn
        float acc = 0.0f;  // insn_1
        const int j_outer_full = n / 4;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            x_fetch[tx] = x[by * n + 4 * j_outer + tx];  // fetch_x
            __syncwarp();
            for (int j_inner = 0; j_inner < 4; ++j_inner)
                acc += a[i * n + 4 * j_outer + j_inner] * x_fetch[j_inner];  // insn_1
            __syncwarp();
        }
        for (int j_outer = j_outer_full; j_outer < (n + 3) / 4; ++j_outer) {
            if (4 * j_outer + tx < n)
                x_fetch[tx] = x[by * n + 4 * j_outer + tx];  // fetch_x
            __syncwarp();
            for (int j_inner = 0; j_inner < n - 4 * j_outer; ++j_inner)
                acc += a[i * n + 4 * j_outer + j_inner] * x_fetch[j_inner];  // insn_1
            __syncwarp();
        }
        y[by * n + i] = t + acc;  // insn_1
    } else {
        float acc = 0.0f;  // insn_1
        float t;
        if (i < n)
            t = s[by] * x[by * n + i];  // insn
        for (int j_outer = 0; j_outer < (n + 3) / 4; ++j_outer) {
            if (4 * j_outer + tx < n)
                x_fetch[tx] = x[by * n + 4 * j_outer + tx];  // fetch_x
            __syncwarp();
            if (i < n) {
                for (int j_inner = 0; j_inner < min(4, n - 4 * j_outer); ++j_inner)
                    acc += a[i * n + 4 * j_outer + j_inner] * x_fetch[j_inner];  // insn_1
            }
            __syncwarp();
        }
        if (i < n)
            y[by * n + i] = t + acc;  // insn_1
    }
}
