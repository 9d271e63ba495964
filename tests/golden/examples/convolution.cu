extern "C" __global__ void __launch_bounds__(128) convolution(const float *__restrict__ x, const float *__restrict__ w, float *__restrict__ y, int channels, int m, int n, int filters)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float x_fetch[10][18];
    if (4 * bz + 3 < filters && 8 * by + 7 < m && 16 * bx + 15 < n) {
        float acc[4];
        #pragma unroll
        for (int f_inner = 0; f_inner < 4; ++f_inner)
            acc[f_inner] = 0.0f;  // insn
        for (int c = 0; c < channels; ++c) {
            #pragma unroll
            for (int x_dim_1_outer = 0; x_dim_1_outer < 2; ++x_dim_1_outer) {
                if (8 * x_dim_1_outer + ty < 10) {
                    #pragma unroll
                    for (int x_dim_2_outer = 0; x_dim_2_outer < 2; ++x_dim_2_outer) {
                        if (16 * x_dim_2_outer + tx < 18)
                            x_fetch[8 * x_dim_1_outer + ty][16 * x_dim_2_outer + tx] = x[c * (n + 2) * (m + 2) + (8 * by + 8 * x_dim_1_outer + ty) * (n + 2) + 16 * bx + 16 * x_dim_2_outer + tx];  // fetch_x
                    }
                }
            }
            __syncthreads();
            #pragma unroll
            for (int p = 0; p < 3; ++p) {
                #pragma unroll
                for (int q = 0; q < 3; ++q) {
                    #pragma unroll
                    for (int f_inner = 0; f_inner < 4; ++f_inner)
                        acc[f_inner] += w[(4 * bz + f_inner) * 9 * channels + c * 9 + p * 3 + q] * x_fetch[p + ty][q + tx];  // insn
                }
            }
            __syncthreads();
        }
        #pragma unroll
        for (int f_inner = 0; f_inner < 4; ++f_inner)
            y[(4 * bz + f_inner) * n * m + (8 * by + ty) * n + 16 * bx + tx] = acc[f_inner];  // insn
    } else {
        float acc[4];
        if (8 * by + ty < m && 16 * bx + tx < n) {
            #pragma unroll
            for (int f_inner = 0; f_inner < 4; ++f_inner) {
                if (4 * bz + f_inner < filters)
                    acc[f_inner] = 0.0f;  // insn
            }
        }
        for (int c = 0; c < channels; ++c) {
            if (8 * by + ty <= m + 1 && 16 * bx + tx <= n + 1) {
                #pragma unroll
                for (int x_dim_1_outer = 0; x_dim_1_outer < 2; ++x_dim_1_outer) {
                    if (8 * x_dim_1_outer + ty < 10 && 8 * by + 8 * x_dim_1_outer + ty <= m + 1) {
                        #pragma unroll
                        for (int x_dim_2_outer = 0; x_dim_2_outer < 2; ++x_dim_2_outer) {
                            if (16 * x_dim_2_outer + tx < 18 && 16 * bx + 16 * x_dim_2_outer + tx <= n + 1)
                                x_fetch[8 * x_dim_1_outer + ty][16 * x_dim_2_outer + tx] = x[c * (n + 2) * (m + 2) + (8 * by + 8 * x_dim_1_outer + ty) * (n + 2) + 16 * bx + 16 * x_dim_2_outer + tx];  // fetch_x
                        }
                    }
                }
            }
            __syncthreads();
            if (8 * by + ty < m && 16 * bx + tx < n) {
                #pragma unroll
                for (int p = 0; p < 3; ++p) {
                    #pragma unroll
                    for (int q = 0; q < 3; ++q) {
                        #pragma unroll
                        for (int f_inner = 0; f_inner < 4; ++f_inner) {
                            if (4 * bz + f_inner < filters)
                                acc[f_inner] += w[(4 * bz + f_inner) * 9 * channels + c * 9 + p * 3 + q] * x_fetch[p + ty][q + tx];  // insn
                        }
                    }
                }
            }
            __syncthreads();
        }
        if (8 * by + ty < m && 16 * bx + tx < n) {
            #pragma unroll
            for (int f_inner = 0; f_inner < 4; ++f_inner) {
                if (4 * bz + f_inner < filters)
                    y[(4 * bz + f_inner) * n * m + (8 * by + ty) * n + 16 * bx + tx] = acc[f_inner];  // insn
            }
        }
    }
}
