// rows_times_vector_ahead computes
//     for i in [0, n)
//         y[i] = sum(k, a[i, k]*x[k]), k in [0, 3*n)
// Sizes: a: n x 3*n, x: 3*n, y: n
// Launch: rows_times_vector_ahead, grid ((n + 31) / 32), block (32)
// Assumes: n >= 1; y overlaps no other array
// Indices have 32 bits: 3*n*n, 3*n, n, 6*n + 9, 3*n + 24, n + 67 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) rows_times_vector_ahead(
    const float *__restrict__ a,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int t_mod_8 = tx % 8, ar = tx / 8;
    const int i = 32 * bx + tx;
    __shared__ float a_tile[2][32][9];
    __shared__ float x_tile[2][8];
    float acc = 0.0f;
    float a_tile_next[8] = {};
    float x_tile_next;
    if (t_mod_8 < 3 * n) {
        #pragma unroll
        for (int aq = 0; aq < 8; ++aq) {
            if (32 * bx + 4 * aq + ar < n)
                a_tile_next[aq] = a[(32 * bx + 4 * aq + ar) * 3 * n + t_mod_8];
        }
        x_tile_next = x[t_mod_8];
    }
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = 3 * n / 8 - 1;
    for (int ko = 0; ko < ko_full; ++ko) {
        #pragma unroll
        for (int aq_s = 0; aq_s < 8; ++aq_s)
            a_tile[ko % 2][4 * aq_s + ar][t_mod_8] = a_tile_next[aq_s];
        if (ar == 0)
            x_tile[ko % 2][t_mod_8] = x_tile_next;
        #pragma unroll
        for (int aq = 0; aq < 8; ++aq) {
            if (32 * bx + 4 * aq + ar < n)
                a_tile_next[aq] = a[(32 * bx + 4 * aq + ar) * 3 * n + 8 * ko + t_mod_8 + 8];
        }
        x_tile_next = x[8 * ko + t_mod_8 + 8];
        __syncwarp();  // a_tile, x_tile: reads follow writes, writes follow reads
        for (int ki = 0; ki < 8; ++ki)
            acc += a_tile[ko % 2][tx][ki] * x_tile[ko % 2][ki];
    }
    for (int ko = max(0, ko_full); ko < (3 * n + 7) / 8; ++ko) {
        const int x_index = 8 * ko + t_mod_8;
        if (x_index < 3 * n) {
            #pragma unroll
            for (int aq_s = 0; aq_s < 8; ++aq_s)
                a_tile[ko % 2][4 * aq_s + ar][t_mod_8] = a_tile_next[aq_s];
        }
        if (ar == 0 && x_index < 3 * n)
            x_tile[ko % 2][t_mod_8] = x_tile_next;
        #pragma unroll
        for (int aq = 0; aq < 8; ++aq) {
            if (32 * bx + 4 * aq + ar < n && x_index + 8 < 3 * n)
                a_tile_next[aq] = a[(32 * bx + 4 * aq + ar) * 3 * n + 8 * ko + t_mod_8 + 8];
        }
        if (x_index + 8 < 3 * n)
            x_tile_next = x[x_index + 8];
        __syncwarp();  // a_tile, x_tile: reads follow writes, writes follow reads
        for (int ki = 0; ki < min(8, 3 * n - 8 * ko); ++ki)
            acc += a_tile[ko % 2][tx][ki] * x_tile[ko % 2][ki];
    }
    if (i < n)
        y[i] = acc;
}
