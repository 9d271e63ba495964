// convolution computes
//     for f in [0, filters), i in [0, m), j in [0, n)
//         y[f, i, j] = sum((c, p, q), w[f, c, p, q]*x[c, i + p, j + q]), c in [0, channels),
//             p in [0, 3), q in [0, 3)
// Sizes: x: channels x (m + 2) x (n + 2), w: filters x channels x 3 x 3, y: filters x m x n
// Launch: convolution, grid ((n + 15) / 16, (m + 7) / 8, (filters + 3) / 4), block (16, 8)
// Assumes: channels >= 1; filters >= 1; m >= 1; n >= 1; y overlaps no other array
// Indices have 32 bits: channels*(n + 2)*(m + 2), 9*filters*channels, filters*n*m, n + 63, m + 31,
//     filters + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) convolution(
    const float *__restrict__ x,
    const float *__restrict__ w,
    float *__restrict__ y,
    int channels,
    int m,
    int n,
    int filters)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 16 * bx + tx;
    __shared__ float x_fetch[10][18];
    if (4 * bz + 3 < filters && 8 * by + 7 < m && 16 * bx + 15 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc[4];
        #pragma unroll
        for (int f_inner = 0; f_inner < 4; ++f_inner)
            acc[f_inner] = 0.0f;
        for (int c = 0; c < channels; ++c) {
            #pragma unroll
            for (int x_dim_1_outer = 0; x_dim_1_outer < 2; ++x_dim_1_outer) {
                if (8 * x_dim_1_outer + ty < 10) {
                    #pragma unroll
                    for (int x_dim_2_outer = 0; x_dim_2_outer < 2; ++x_dim_2_outer) {
                        if (16 * x_dim_2_outer + tx < 18)
                            x_fetch[8 * x_dim_1_outer + ty][16 * x_dim_2_outer + tx] = x[
                                c * (n + 2) * (m + 2)
                                + (i + 8 * x_dim_1_outer) * (n + 2)
                                + j
                                + 16 * x_dim_2_outer];
                    }
                }
            }
            __syncthreads();  // x_fetch: reads follow writes
            #pragma unroll
            for (int p = 0; p < 3; ++p) {
                #pragma unroll
                for (int q = 0; q < 3; ++q) {
                    #pragma unroll
                    for (int f_inner = 0; f_inner < 4; ++f_inner)
                        acc[f_inner] += w[(4 * bz + f_inner) * 9 * channels + c * 9 + p * 3 + q]
                            * x_fetch[p + ty][q + tx];
                }
            }
            __syncthreads();  // x_fetch: writes follow reads
        }
        #pragma unroll
        for (int f_inner = 0; f_inner < 4; ++f_inner)
            y[(4 * bz + f_inner) * n * m + i * n + j] = acc[f_inner];
    } else {
        float acc[4];
        if (i < m && j < n) {
            #pragma unroll
            for (int f_inner = 0; f_inner < 4; ++f_inner) {
                if (4 * bz + f_inner < filters)
                    acc[f_inner] = 0.0f;
            }
        }
        for (int c = 0; c < channels; ++c) {
            if (i <= m + 1 && j <= n + 1) {
                #pragma unroll
                for (int x_dim_1_outer = 0; x_dim_1_outer < 2; ++x_dim_1_outer) {
                    if (8 * x_dim_1_outer + ty < 10 && i + 8 * x_dim_1_outer <= m + 1) {
                        #pragma unroll
                        for (int x_dim_2_outer = 0; x_dim_2_outer < 2; ++x_dim_2_outer) {
                            if (16 * x_dim_2_outer + tx < 18 && j + 16 * x_dim_2_outer <= n + 1)
                                x_fetch[8 * x_dim_1_outer + ty][16 * x_dim_2_outer + tx] = x[
                                    c * (n + 2) * (m + 2)
                                    + (i + 8 * x_dim_1_outer) * (n + 2)
                                    + j
                                    + 16 * x_dim_2_outer];
                        }
                    }
                }
            }
            __syncthreads();  // x_fetch: reads follow writes
            if (i < m && j < n) {
                #pragma unroll
                for (int p = 0; p < 3; ++p) {
                    #pragma unroll
                    for (int q = 0; q < 3; ++q) {
                        #pragma unroll
                        for (int f_inner = 0; f_inner < 4; ++f_inner) {
                            const int f = 4 * bz + f_inner;
                            if (f < filters)
                                acc[f_inner] += w[f * 9 * channels + c * 9 + p * 3 + q]
                                    * x_fetch[p + ty][q + tx];
                        }
                    }
                }
            }
            __syncthreads();  // x_fetch: writes follow reads
        }
        if (i < m && j < n) {
            #pragma unroll
            for (int f_inner = 0; f_inner < 4; ++f_inner) {
                const int f = 4 * bz + f_inner;
                if (f < filters)
                    y[f * n * m + i * n + j] = acc[f_inner];
            }
        }
    }
}
