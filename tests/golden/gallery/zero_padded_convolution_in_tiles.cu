extern "C" __global__ void __launch_bounds__(16) zero_padded_convolution_in_tiles(const float *__restrict__ a, float *__restrict__ b, const float *__restrict__ w, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    __shared__ float a_fetch[18];
    if (bx >= 1 && 16 * bx + 16 < n) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            if (16 * a_dim_0_outer + tx < 18)
                a_fetch[16 * a_dim_0_outer + tx] = a[i + 16 * a_dim_0_outer - 1];  // fetch_a
        }
        float acc = 0.0f;  // insn
        __syncwarp();
        for (int k = 0; k < 3; ++k)
            acc += w[k] * a_fetch[k + tx];  // insn
        b[i] = acc;  // insn
    } else {
        if (i <= n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                if (16 * a_dim_0_outer + tx < 18 && i + 16 * a_dim_0_outer >= 1 && i + 16 * a_dim_0_outer <= n)
                    a_fetch[16 * a_dim_0_outer + tx] = a[i + 16 * a_dim_0_outer - 1];  // fetch_a
            }
        }
        float acc = 0.0f;  // insn
        __syncwarp();
        if (i < n) {
            for (int k = 0; k < 3; ++k)
                acc += i + k >= 1 && i + k <= n ? w[k] * a_fetch[k + tx] : 0.0f;  // insn
            b[i] = acc;  // insn
        }
    }
}
