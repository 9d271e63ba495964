// product computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: product, grid (n / 32, n / 32), block (8, 8)
// Assumes: n % 32 == 0; n >= 32; b is aligned to 16 bytes; c is aligned to 16 bytes; c overlaps no
//     other array
// Indices have 32 bits: n*n, n + 40 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) product(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[32][8];
    __shared__ __align__(16) float b_fetch[8][32];
    __align__(16) float acc[4][4];
    #pragma unroll
    for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
        #pragma unroll
        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner)
            acc[i_inner_outer][j_inner_inner] = 0.0f;
    }
    for (int k_outer = 0; k_outer < n / 8; ++k_outer) {
        #pragma unroll
        for (int ar_outer = 0; ar_outer < 4; ++ar_outer)
            a_fetch[8 * ar_outer + ty][tx] =
                a[(32 * by + 8 * ar_outer + ty) * n + 8 * k_outer + tx];
        *(float4 *)&b_fetch[ty][4 * tx] =
            *(const float4 *)&b[(8 * k_outer + ty) * n + 32 * bx + 4 * tx];
        __syncthreads();  // a_fetch, b_fetch: reads follow writes
        for (int k_inner = 0; k_inner < 8; ++k_inner) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
                const float4 b_fetch_v = *(const float4 *)&b_fetch[k_inner][4 * tx];
                acc[i_inner_outer][0] += a_fetch[8 * i_inner_outer + ty][k_inner] * b_fetch_v.x;
                acc[i_inner_outer][1] += a_fetch[8 * i_inner_outer + ty][k_inner] * b_fetch_v.y;
                acc[i_inner_outer][2] += a_fetch[8 * i_inner_outer + ty][k_inner] * b_fetch_v.z;
                acc[i_inner_outer][3] += a_fetch[8 * i_inner_outer + ty][k_inner] * b_fetch_v.w;
            }
        }
        __syncthreads();  // a_fetch, b_fetch: writes follow reads
    }
    #pragma unroll
    for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer)
        *(float4 *)&c[(32 * by + 8 * i_inner_outer + ty) * n + 32 * bx + 4 * tx] =
            *(const float4 *)&acc[i_inner_outer][0];
}
