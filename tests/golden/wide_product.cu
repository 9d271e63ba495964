// product computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: product, grid (n / 16, n / 16), block (4, 4)
// Assumes: n % 16 == 0; n >= 1; c is aligned to 16 bytes; c overlaps no other array
// Indices have 32 bits: n*n, n + 20 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) product(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[16][8];
    __shared__ __align__(16) float b_fetch[8][16];
    __align__(16) float acc[4][4];
    #pragma unroll
    for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
        #pragma unroll
        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner)
            acc[i_inner_outer][j_inner_inner] = 0.0f;
    }
    for (int k_outer = 0; k_outer < n / 8; ++k_outer) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 4; ++a_dim_0_outer) {
            #pragma unroll
            for (int a_dim_1_outer = 0; a_dim_1_outer < 2; ++a_dim_1_outer)
                a_fetch[4 * a_dim_0_outer + ty][4 * a_dim_1_outer + tx] = a[
                    (16 * by + 4 * a_dim_0_outer + ty) * n + 8 * k_outer + 4 * a_dim_1_outer + tx];
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 4; ++b_dim_1_outer)
                b_fetch[4 * b_dim_0_outer + ty][4 * b_dim_1_outer + tx] = b[
                    (8 * k_outer + 4 * b_dim_0_outer + ty) * n + 16 * bx + 4 * b_dim_1_outer + tx];
        }
        __syncwarp();  // a_fetch, b_fetch: reads follow writes
        for (int k_inner = 0; k_inner < 8; ++k_inner) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const float4 b_fetch_v = *(const float4 *)&b_fetch[k_inner][4 * tx];
                acc[i_inner_outer][0] += a_fetch[4 * i_inner_outer + ty][k_inner] * b_fetch_v.x;
                acc[i_inner_outer][1] += a_fetch[4 * i_inner_outer + ty][k_inner] * b_fetch_v.y;
                acc[i_inner_outer][2] += a_fetch[4 * i_inner_outer + ty][k_inner] * b_fetch_v.z;
                acc[i_inner_outer][3] += a_fetch[4 * i_inner_outer + ty][k_inner] * b_fetch_v.w;
            }
        }
        __syncwarp();  // a_fetch, b_fetch: writes follow reads
    }
    #pragma unroll
    for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
        *(float4 *)&c[(16 * by + 4 * i_inner_outer + ty) * n + 16 * bx + 4 * tx] =
            *(const float4 *)&acc[i_inner_outer][0];
}
