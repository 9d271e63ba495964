extern "C" __global__ void __launch_bounds__(16) zero_padded_convolution_in_tiles(const float *__restrict__ a, float *__restrict__ b, const float *__restrict__ w, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float a_fetch[18];
    if (bx >= 1 && 16 * bx + 16 < n) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            if (16 * a_dim_0_outer + tx < 18)
                a_fetch[16 * a_dim_0_outer + tx] = a[16 * bx + 16 * a_dim_0_outer + tx - 1];  // fetch_a
        }
        float acc = 0.0f;  // insn
        __syncwarp();
        for (int k = 0; k < 3; ++k)
            acc += w[k] * a_fetch[k + tx];  // insn
        b[16 * bx + tx] = acc;  // insn
    } else {
        if (16 * bx + tx <= n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                if (16 * a_dim_0_outer + tx < 18 && 16 * bx + 16 * a_dim_0_outer + tx >= 1 && 16 * bx + 16 * a_dim_0_outer + tx <= n)
                    a_fetch[16 * a_dim_0_outer + tx] = a[16 * bx + 16 * a_dim_0_outer + tx - 1];  // fetch_a
            }
        }
        float acc = 0.0f;  // insn
        __syncwarp();
        if (16 * bx + tx < n) {
            for (int k = 0; k < 3; ++k)
                acc += 16 * bx + k + tx >= 1 && 16 * bx + k + tx <= n ? w[k] * a_fetch[k + tx] : 0.0f;  // insn
            b[16 * bx + tx] = acc;  // insn
        }
    }
}
