// horner computes
//     for i in [0, n)
//         s = 0*x[i]
//         for k in [0, 13)
//             s = s*x[i] + c[12 - k]
//         y[i] = s
// Sizes: x: n, y: n, c: 13
// Launch: horner, grid ((n + 127) / 128), block (32)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n, n + 287 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) horner(
    const double *__restrict__ x,
    double *__restrict__ y,
    const double *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (128 * bx + 127 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        double s[4];
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
            s[i_inner_outer] = 0.0 * x[128 * bx + 32 * i_inner_outer + tx];
        for (int k = 0; k < 13; ++k) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
                // step
                s[i_inner_outer] =
                    s[i_inner_outer] * x[128 * bx + 32 * i_inner_outer + tx] + c[12 - k];
        }
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
            y[128 * bx + 32 * i_inner_outer + tx] = s[i_inner_outer];
    } else if (128 * bx + tx < n) {
        double s[4];
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            const int i = 128 * bx + 32 * i_inner_outer + tx;
            if (i < n)
                s[i_inner_outer] = 0.0 * x[i];
        }
        for (int k = 0; k < 13; ++k) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 128 * bx + 32 * i_inner_outer + tx;
                if (i < n)
                    s[i_inner_outer] = s[i_inner_outer] * x[i] + c[12 - k];  // step
            }
        }
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            const int i = 128 * bx + 32 * i_inner_outer + tx;
            if (i < n)
                y[i] = s[i_inner_outer];
        }
    }
}
