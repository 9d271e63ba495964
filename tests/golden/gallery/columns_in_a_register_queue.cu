// columns_in_a_register_queue computes
//     for k in [0, n), i in [0, 40)
//         y[k, i] = x[k, i] + 2*x[k + 1, i] + x[k + 2, i]
// Sizes: x: (n + 2) x 40, y: n x 40
// Launch: columns_in_a_register_queue, grid (1), block (40)
// Assumes: n >= 1; y overlaps no other array
// Indices have 32 bits: 40*(n + 2), 40*n, 3*n + 10 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(40) columns_in_a_register_queue(
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int tx = threadIdx.x;
    float x_fetch[4];
    #pragma unroll
    for (int k_inner = 1; k_inner < 4; ++k_inner)
        x_fetch[(k_inner + 3) % 4] = x[(k_inner - 1) * 40 + tx];
    // Full tiles, without tests; the others begin at k_outer_full.
    const int k_outer_full = (n + 3) / 4 - 1;
    for (int k_outer = 0; k_outer < k_outer_full; ++k_outer) {
        #pragma unroll
        for (int k_inner = 0; k_inner < 4; ++k_inner) {
            const int k = 4 * k_outer + k_inner;
            x_fetch[(k_inner + 3) % 4] = x[(k + 3) * 40 + tx];
            y[k * 40 + tx] =
                x_fetch[k_inner] + 2.0f * x_fetch[(k_inner + 1) % 4] + x_fetch[(k_inner + 2) % 4];
        }
    }
    for (int k_outer = k_outer_full; k_outer < (n + 3) / 4; ++k_outer) {
        #pragma unroll
        for (int k_inner = 0; k_inner < 4; ++k_inner) {
            const int k = 4 * k_outer + k_inner;
            if (k < n) {
                if (k + 1 < n)
                    x_fetch[(k_inner + 3) % 4] = x[(k + 3) * 40 + tx];
                y[k * 40 + tx] = x_fetch[k_inner]
                    + 2.0f * x_fetch[(k_inner + 1) % 4]
                    + x_fetch[(k_inner + 2) % 4];
            }
        }
    }
}
