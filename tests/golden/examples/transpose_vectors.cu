extern "C" __global__ void __launch_bounds__(256) transpose_vectors(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float tile[64][65];
    if (64 * bx + 63 < n && 64 * by + 63 < n) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            const float4 a_v = *(const float4 *)&a[(64 * bx + 16 * a_dim_0_outer + ty) * n + 64 * by + 4 * tx];
            tile[16 * a_dim_0_outer + ty][4 * tx] = a_v.x;  // fetch_a
            tile[16 * a_dim_0_outer + ty][4 * tx + 1] = a_v.y;  // fetch_a
            tile[16 * a_dim_0_outer + ty][4 * tx + 2] = a_v.z;  // fetch_a
            tile[16 * a_dim_0_outer + ty][4 * tx + 3] = a_v.w;  // fetch_a
        }
        __syncthreads();
        #pragma unroll
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            float4 b_v;
            b_v.x = tile[4 * tx][16 * i_inner_outer + ty];
            b_v.y = tile[4 * tx + 1][16 * i_inner_outer + ty];
            b_v.z = tile[4 * tx + 2][16 * i_inner_outer + ty];
            b_v.w = tile[4 * tx + 3][16 * i_inner_outer + ty];
            *(float4 *)&b[(64 * by + 16 * i_inner_outer + ty) * n + 64 * bx + 4 * tx] = b_v;  // insn
        }
    } else {
        if (64 * bx + ty < n && 64 * by + 4 * tx + 3 < n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
                if (64 * bx + 16 * a_dim_0_outer + ty < n) {
                    const float4 a_v = *(const float4 *)&a[(64 * bx + 16 * a_dim_0_outer + ty) * n + 64 * by + 4 * tx];
                    tile[16 * a_dim_0_outer + ty][4 * tx] = a_v.x;  // fetch_a
                    tile[16 * a_dim_0_outer + ty][4 * tx + 1] = a_v.y;  // fetch_a
                    tile[16 * a_dim_0_outer + ty][4 * tx + 2] = a_v.z;  // fetch_a
                    tile[16 * a_dim_0_outer + ty][4 * tx + 3] = a_v.w;  // fetch_a
                }
            }
        }
        __syncthreads();
        if (64 * by + ty < n && 64 * bx + 4 * tx + 3 < n) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const int i = 64 * by + 16 * i_inner_outer + ty;
                if (i < n) {
                    float4 b_v;
                    b_v.x = tile[4 * tx][16 * i_inner_outer + ty];
                    b_v.y = tile[4 * tx + 1][16 * i_inner_outer + ty];
                    b_v.z = tile[4 * tx + 2][16 * i_inner_outer + ty];
                    b_v.w = tile[4 * tx + 3][16 * i_inner_outer + ty];
                    *(float4 *)&b[i * n + 64 * bx + 4 * tx] = b_v;  // insn
                }
            }
        }
    }
}
