extern "C" __global__ void __launch_bounds__(256) transpose(const float *__restrict__ a, float *__restrict__ b, int m, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int j = 32 * bx + tx;
    __shared__ float a_fetch[32][33];
    if (32 * bx + 31 < m && 32 * by + 31 < n) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer)
            a_fetch[8 * a_dim_0_outer + ty][tx] = a[(32 * bx + 8 * a_dim_0_outer + ty) * n + 32 * by + tx];  // fetch_a
        __syncthreads();
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
            b[(32 * by + 8 * i_inner_outer + ty) * m + j] = a_fetch[tx][8 * i_inner_outer + ty];  // insn
    } else {
        if (32 * bx + ty < m && 32 * by + tx < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                if (32 * bx + 8 * a_dim_0_outer + ty < m)
                    a_fetch[8 * a_dim_0_outer + ty][tx] = a[(32 * bx + 8 * a_dim_0_outer + ty) * n + 32 * by + tx];  // fetch_a
            }
        }
        __syncthreads();
        if (32 * by + ty < n && j < m) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 32 * by + 8 * i_inner_outer + ty;
                if (i < n)
                    b[i * m + j] = a_fetch[tx][8 * i_inner_outer + ty];  // insn
            }
        }
    }
}
