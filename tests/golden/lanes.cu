extern "C" __global__ void __launch_bounds__(64) chained(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (256 * bx + 255 < n) {
        float t[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner)
            t[i_inner] = 2.0f * x[256 * bx + 4 * tx + i_inner];  // insn
        float u[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner)
            u[i_inner] = t[i_inner] + x[256 * bx + 4 * tx + i_inner];  // insn_1
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner)
            y[256 * bx + 4 * tx + i_inner] = t[i_inner] * u[i_inner];  // insn_2
    } else if (256 * bx + 4 * tx < n) {
        float t[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 256 * bx + 4 * tx + i_inner;
            if (i < n)
                t[i_inner] = 2.0f * x[i];  // insn
        }
        float u[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 256 * bx + 4 * tx + i_inner;
            if (i < n)
                u[i_inner] = t[i_inner] + x[i];  // insn_1
        }
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 256 * bx + 4 * tx + i_inner;
            if (i < n)
                y[i] = t[i_inner] * u[i_inner];  // insn_2
        }
    }
}
