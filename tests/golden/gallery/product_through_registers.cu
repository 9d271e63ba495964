extern "C" __global__ void __launch_bounds__(64) product_through_registers(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n)
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
            acc[ir][jr] = 0.0f;  // insn
    }
    __align__(16) float a_tile_next[4];
    *(float4 *)&a_tile_next[0] = *(const float4 *)&a[(32 * by + ai) * n + 4 * ak_quad];  // fetch_a
    __align__(16) float b_tile_next[4];
    *(float4 *)&b_tile_next[0] = *(const float4 *)&b[bk * n + 32 * bx + 4 * bj_quad];  // fetch_b
    const int ko_full = n / 8 - 1;
    __align__(16) float a_part[4];
    __align__(16) float b_part[4];
    for (int ko = 0; ko < ko_full; ++ko) {
        #pragma unroll
        for (int ak_inner_s = 0; ak_inner_s < 4; ++ak_inner_s)
            a_tile[ko % 2][4 * ak_quad + ak_inner_s][ai] = a_tile_next[ak_inner_s];  // store_a_tile
        *(float4 *)&b_tile[ko % 2][bk][4 * bj_quad] = *(const float4 *)&b_tile_next[0];  // store_b_tile
        *(float4 *)&a_tile_next[0] = *(const float4 *)&a[(32 * by + ai) * n + 8 * ko + 4 * ak_quad + 8];  // fetch_a
        *(float4 *)&b_tile_next[0] = *(const float4 *)&b[(8 * ko + bk + 8) * n + 32 * bx + 4 * bj_quad];  // fetch_b
        __syncthreads();
        for (int ki = 0; ki < 8; ++ki) {
            *(float4 *)&a_part[0] = *(const float4 *)&a_tile[ko % 2][ki][4 * ty];  // fetch_a_tile
            *(float4 *)&b_part[0] = *(const float4 *)&b_tile[ko % 2][ki][4 * tx];  // fetch_b_tile
            #pragma unroll
            for (int ir = 0; ir < 4; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 4; ++jr)
                    acc[ir][jr] += a_part[ir] * b_part[jr];  // insn
            }
        }
    }
    for (int ko = ko_full; ko < n / 8; ++ko) {
        #pragma unroll
        for (int ak_inner_s = 0; ak_inner_s < 4; ++ak_inner_s)
            a_tile[ko % 2][4 * ak_quad + ak_inner_s][ai] = a_tile_next[ak_inner_s];  // store_a_tile
        *(float4 *)&b_tile[ko % 2][bk][4 * bj_quad] = *(const float4 *)&b_tile_next[0];  // store_b_tile
        __syncthreads();
        for (int ki = 0; ki < 8; ++ki) {
            *(float4 *)&a_part[0] = *(const float4 *)&a_tile[ko % 2][ki][4 * ty];  // fetch_a_tile
            *(float4 *)&b_part[0] = *(const float4 *)&b_tile[ko % 2][ki][4 * tx];  // fetch_b_tile
            #pragma unroll
            for (int ir = 0; ir < 4; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 4; ++jr)
                    acc[ir][jr] += a_part[ir] * b_part[jr];  // insn
            }
        }
    }
    #pragma unroll
    for (int ir = 0; ir < 4; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 4; ++jr)
            c[(32 * by + 4 * ty + ir) * n + 32 * bx + 4 * tx + jr] = acc[ir][jr];  // insn
    }
}
