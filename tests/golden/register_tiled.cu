// matmul computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: matmul, grid (n / 8, n / 8), block (4, 4)
// Assumes: n % 8 == 0; n >= 1; c overlaps no other array
// Indices have 32 bits: n*n, n + 12 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) matmul(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[8][4];
    __shared__ float b_fetch[4][8];
    float acc[2][2];
    #pragma unroll
    for (int i_inner_outer = 0; i_inner_outer < 2; ++i_inner_outer) {
        #pragma unroll
        for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
            acc[i_inner_outer][j_inner_outer] = 0.0f;
    }
    for (int k_outer = 0; k_outer < n / 4; ++k_outer) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            a_fetch[4 * a_dim_0_outer + ty][tx] =
                a[(8 * by + 4 * a_dim_0_outer + ty) * n + 4 * k_outer + tx];
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            b_fetch[ty][4 * b_dim_1_outer + tx] =
                b[(4 * k_outer + ty) * n + 8 * bx + 4 * b_dim_1_outer + tx];
        __syncwarp();  // a_fetch, b_fetch: reads follow writes
        for (int k_inner = 0; k_inner < 4; ++k_inner) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 2; ++i_inner_outer) {
                #pragma unroll
                for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
                    acc[i_inner_outer][j_inner_outer] += a_fetch[4 * i_inner_outer + ty][k_inner]
                        * b_fetch[k_inner][4 * j_inner_outer + tx];
            }
        }
        __syncwarp();  // a_fetch, b_fetch: writes follow reads
    }
    #pragma unroll
    for (int i_inner_outer = 0; i_inner_outer < 2; ++i_inner_outer) {
        #pragma unroll
        for (int j_inner_outer = 0; j_inner_outer < 2; ++j_inner_outer)
            c[(8 * by + 4 * i_inner_outer + ty) * n + 8 * bx + 4 * j_inner_outer + tx] =
                acc[i_inner_outer][j_inner_outer];
    }
}
