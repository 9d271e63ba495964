extern "C" __global__ void __launch_bounds__(8) rows(const float *__restrict__ a, float *__restrict__ s, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (8 * bx + tx < m) {
        float acc = 0.0f;
        float part[4];
        #pragma unroll
        for (int k_inner = 0; k_inner < 4; ++k_inner)
            part[k_inner] = 0.0f;
        const int k_outer_full = n / 4;
        for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 4; ++k_inner)
                part[k_inner] += a[(8 * bx + tx) * n + 4 * k_outer + k_inner];
        }
        for (int k_outer = k_outer_full; k_outer < (n + 3) / 4; ++k_outer) {
            #pragma unroll
            for (int k_inner = 0; k_inner < 4; ++k_inner) {
                if (4 * k_outer + k_inner < n)
                    part[k_inner] += a[(8 * bx + tx) * n + 4 * k_outer + k_inner];
            }
        }
        #pragma unroll
        for (int k_inner = 0; k_inner < 4; ++k_inner)
            acc += part[k_inner];
        s[8 * bx + tx] = acc;
    }
}
