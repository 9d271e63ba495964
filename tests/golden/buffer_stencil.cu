extern "C" __global__ void __launch_bounds__(8) halo(const float *__restrict__ a, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    __shared__ float a_fetch[10];
    __shared__ float out_buf[8];
    if (bx >= 1 && 8 * bx + 8 < n) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            if (8 * a_dim_0_outer + tx < 10)
                a_fetch[8 * a_dim_0_outer + tx] = a[i + 8 * a_dim_0_outer - 1];  // fetch_a
        }
        __syncwarp();
        out_buf[tx] = a_fetch[tx] + a_fetch[tx + 2];  // insn
        out[i] = out_buf[tx];  // store_out_buf
    } else {
        if (i <= n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
                if (8 * a_dim_0_outer + tx < 10 && i + 8 * a_dim_0_outer >= 1 && i + 8 * a_dim_0_outer <= n)
                    a_fetch[8 * a_dim_0_outer + tx] = a[i + 8 * a_dim_0_outer - 1];  // fetch_a
            }
        }
        __syncwarp();
        if (i >= 1 && i + 1 < n) {
            out_buf[tx] = a_fetch[tx] + a_fetch[tx + 2];  // insn
            out[i] = out_buf[tx];  // store_out_buf
        }
    }
}
