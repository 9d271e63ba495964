// product_through_registers computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: product_through_registers, grid (n / 32, n / 32), block (8, 8)
// Assumes: n % 32 == 0; n >= 1; a is aligned to 16 bytes; b is aligned to 16 bytes; c overlaps no
//     other array
// Indices have 32 bits: n*n, n + 36 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) product_through_registers(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int ak_quad = tx % 2, bj_quad = tx, ai = 4 * ty + tx / 2, bk = ty;
    __shared__ __align__(16) float a_tile[2][8][32];
    __shared__ __align__(16) float b_tile[2][8][32];
    float acc[4][4];
    #pragma unroll
    for (int ir = 0; ir < 4; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 4; ++jr)
            acc[ir][jr] = 0.0f;
    }
    __align__(16) float a_tile_next[4];
    *(float4 *)&a_tile_next[0] = *(const float4 *)&a[(32 * by + ai) * n + 4 * ak_quad];
    __align__(16) float b_tile_next[4];
    *(float4 *)&b_tile_next[0] = *(const float4 *)&b[bk * n + 32 * bx + 4 * bj_quad];
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = n / 8 - 1;
    __align__(16) float a_part[4];
    __align__(16) float b_part[4];
    for (int ko = 0; ko < ko_full; ++ko) {
        #pragma unroll
        for (int ak_inner_s = 0; ak_inner_s < 4; ++ak_inner_s)
            a_tile[ko % 2][4 * ak_quad + ak_inner_s][ai] = a_tile_next[ak_inner_s];
        *(float4 *)&b_tile[ko % 2][bk][4 * bj_quad] = *(const float4 *)&b_tile_next[0];
        *(float4 *)&a_tile_next[0] =
            *(const float4 *)&a[(32 * by + ai) * n + 8 * ko + 4 * ak_quad + 8];
        *(float4 *)&b_tile_next[0] =
            *(const float4 *)&b[(8 * ko + bk + 8) * n + 32 * bx + 4 * bj_quad];
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        for (int ki = 0; ki < 8; ++ki) {
            *(float4 *)&a_part[0] = *(const float4 *)&a_tile[ko % 2][ki][4 * ty];
            *(float4 *)&b_part[0] = *(const float4 *)&b_tile[ko % 2][ki][4 * tx];
            #pragma unroll
            for (int ir = 0; ir < 4; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 4; ++jr)
                    acc[ir][jr] += a_part[ir] * b_part[jr];
            }
        }
    }
    for (int ko = ko_full; ko < n / 8; ++ko) {
        #pragma unroll
        for (int ak_inner_s = 0; ak_inner_s < 4; ++ak_inner_s)
            a_tile[ko % 2][4 * ak_quad + ak_inner_s][ai] = a_tile_next[ak_inner_s];
        *(float4 *)&b_tile[ko % 2][bk][4 * bj_quad] = *(const float4 *)&b_tile_next[0];
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        for (int ki = 0; ki < 8; ++ki) {
            *(float4 *)&a_part[0] = *(const float4 *)&a_tile[ko % 2][ki][4 * ty];
            *(float4 *)&b_part[0] = *(const float4 *)&b_tile[ko % 2][ki][4 * tx];
            #pragma unroll
            for (int ir = 0; ir < 4; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 4; ++jr)
                    acc[ir][jr] += a_part[ir] * b_part[jr];
            }
        }
    }
    #pragma unroll
    for (int ir = 0; ir < 4; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 4; ++jr)
            c[(32 * by + 4 * ty + ir) * n + 32 * bx + 4 * tx + jr] = acc[ir][jr];
    }
}
