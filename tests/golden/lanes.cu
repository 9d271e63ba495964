// chained computes
//     for i in [0, n)
//         t = 2*x[i]
//         u = t + x[i]
//         y[i] = t*u
// Sizes: x: n, y: n
// Launch: chained, grid ((n + 255) / 256), block (64)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n, n + 515 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) chained(
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (256 * bx + 255 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float t[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner)
            t[i_inner] = 2.0f * x[256 * bx + 4 * tx + i_inner];
        float u[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner)
            u[i_inner] = t[i_inner] + x[256 * bx + 4 * tx + i_inner];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner)
            y[256 * bx + 4 * tx + i_inner] = t[i_inner] * u[i_inner];
    } else if (256 * bx + 4 * tx < n) {
        float t[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 256 * bx + 4 * tx + i_inner;
            if (i < n)
                t[i_inner] = 2.0f * x[i];
        }
        float u[4];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 256 * bx + 4 * tx + i_inner;
            if (i < n)
                u[i_inner] = t[i_inner] + x[i];
        }
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 256 * bx + 4 * tx + i_inner;
            if (i < n)
                y[i] = t[i_inner] * u[i_inner];
        }
    }
}
