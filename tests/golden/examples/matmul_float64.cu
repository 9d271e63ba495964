// matmul_float64 computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, p)
// Sizes: a: m x p, b: p x n, c: m x n
// Launch: matmul_float64, grid ((n / 2 + 63) / 64, (m + 127) / 128), block (256)
// Assumes: n % 2 == 0; p % 2 == 0; m >= 1; n >= 1; p >= 1; a is aligned to 16 bytes; b is aligned
//     to 16 bytes; c is aligned to 16 bytes; c overlaps no other array
// Indices have 32 bits: m*p, p*n, m*n, n + 335, m + 319, p + 28 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) matmul_float64(
    const double *__restrict__ a,
    const double *__restrict__ b,
    double *__restrict__ c,
    int m,
    int p,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int a_dim_1_outer = tx % 4, tj = tx % 8, b_dim_1_outer = tx % 64, a_dim_0_inner = tx / 4,
        ti = tx / 8 % 4, wi = tx / 32 % 4, b_dim_0_inner = tx / 64, wj = tx / 128;
    __shared__ __align__(16) double a_tile[2][8][130];
    __shared__ __align__(16) double b_tile[2][8][128];
    __align__(16) double acc[4][2][4][2];
    #pragma unroll
    for (int i_hi = 0; i_hi < 4; ++i_hi) {
        #pragma unroll
        for (int i_lo = 0; i_lo < 2; ++i_lo) {
            #pragma unroll
            for (int j_hi = 0; j_hi < 4; ++j_hi) {
                #pragma unroll
                for (int j_lo = 0; j_lo < 2; ++j_lo)
                    acc[i_hi][i_lo][j_hi][j_lo] = 0.0;
            }
        }
    }
    __align__(16) double a_tile_next[2][2] = {};
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
        const int a_index = 128 * by + 64 * a_dim_0_outer + a_dim_0_inner;
        if (a_index < m && 2 * a_dim_1_outer + 1 < p)
            *(double2 *)&a_tile_next[a_dim_0_outer][0] =
                *(const double2 *)&a[a_index * p + 2 * a_dim_1_outer];
    }
    __align__(16) double b_tile_next[2][2] = {};
    #pragma unroll
    for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
        if (4 * b_dim_0_outer + b_dim_0_inner < p && 128 * bx + 2 * b_dim_1_outer + 1 < n)
            *(double2 *)&b_tile_next[b_dim_0_outer][0] = *(const double2 *)&b[
                (4 * b_dim_0_outer + b_dim_0_inner) * n + 128 * bx + 2 * b_dim_1_outer];
    }
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = p / 8 - 1;
    __align__(16) double a_part[4][2];
    __align__(16) double b_part[4][2];
    for (int ko = 0; ko < ko_full; ++ko) {
        #pragma unroll
        for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s) {
            #pragma unroll
            for (int a_dim_1_vec_s = 0; a_dim_1_vec_s < 2; ++a_dim_1_vec_s)
                a_tile[ko % 2][2 * a_dim_1_outer + a_dim_1_vec_s][
                    64 * a_dim_0_outer_s + a_dim_0_inner] =
                    a_tile_next[a_dim_0_outer_s][a_dim_1_vec_s];
        }
        #pragma unroll
        for (int b_dim_0_outer_s = 0; b_dim_0_outer_s < 2; ++b_dim_0_outer_s)
            *(double2 *)&b_tile[ko % 2][4 * b_dim_0_outer_s + b_dim_0_inner][2 * b_dim_1_outer] =
                *(const double2 *)&b_tile_next[b_dim_0_outer_s][0];
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            const int a_index = 128 * by + 64 * a_dim_0_outer + a_dim_0_inner;
            if (a_index < m)
                *(double2 *)&a_tile_next[a_dim_0_outer][0] =
                    *(const double2 *)&a[a_index * p + 8 * ko + 2 * a_dim_1_outer + 8];
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
            if (128 * bx + 2 * b_dim_1_outer + 1 < n)
                *(double2 *)&b_tile_next[b_dim_0_outer][0] = *(const double2 *)&b[
                    (8 * ko + 4 * b_dim_0_outer + b_dim_0_inner + 8) * n
                    + 128 * bx
                    + 2 * b_dim_1_outer];
        }
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int ki = 0; ki < 8; ++ki) {
            #pragma unroll
            for (int a_tile_dim_0 = 0; a_tile_dim_0 < 4; ++a_tile_dim_0)
                *(double2 *)&a_part[a_tile_dim_0][0] =
                    *(const double2 *)&a_tile[ko % 2][ki][32 * wi + 8 * a_tile_dim_0 + 2 * ti];
            #pragma unroll
            for (int b_tile_dim_0 = 0; b_tile_dim_0 < 4; ++b_tile_dim_0)
                *(double2 *)&b_part[b_tile_dim_0][0] =
                    *(const double2 *)&b_tile[ko % 2][ki][64 * wj + 16 * b_tile_dim_0 + 2 * tj];
            #pragma unroll
            for (int i_hi = 0; i_hi < 4; ++i_hi) {
                #pragma unroll
                for (int i_lo = 0; i_lo < 2; ++i_lo) {
                    #pragma unroll
                    for (int j_hi = 0; j_hi < 4; ++j_hi) {
                        #pragma unroll
                        for (int j_lo = 0; j_lo < 2; ++j_lo)
                            acc[i_hi][i_lo][j_hi][j_lo] += a_part[i_hi][i_lo] * b_part[j_hi][j_lo];
                    }
                }
            }
        }
    }
    for (int ko = max(0, ko_full); ko < (p + 6) / 8; ++ko) {
        if (8 * ko + 2 * a_dim_1_outer + 1 < p) {
            #pragma unroll
            for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s) {
                #pragma unroll
                for (int a_dim_1_vec_s = 0; a_dim_1_vec_s < 2; ++a_dim_1_vec_s)
                    a_tile[ko % 2][2 * a_dim_1_outer + a_dim_1_vec_s][
                        64 * a_dim_0_outer_s + a_dim_0_inner] =
                        a_tile_next[a_dim_0_outer_s][a_dim_1_vec_s];
            }
        }
        if (8 * ko + b_dim_0_inner < p) {
            #pragma unroll
            for (int b_dim_0_outer_s = 0; b_dim_0_outer_s < 2; ++b_dim_0_outer_s) {
                if (8 * ko + 4 * b_dim_0_outer_s + b_dim_0_inner < p)
                    *(double2 *)&b_tile[ko % 2][
                        4 * b_dim_0_outer_s + b_dim_0_inner][2 * b_dim_1_outer] =
                        *(const double2 *)&b_tile_next[b_dim_0_outer_s][0];
            }
        }
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            const int a_index = 128 * by + 64 * a_dim_0_outer + a_dim_0_inner;
            if (a_index < m && 8 * ko + 2 * a_dim_1_outer + 9 < p)
                *(double2 *)&a_tile_next[a_dim_0_outer][0] =
                    *(const double2 *)&a[a_index * p + 8 * ko + 2 * a_dim_1_outer + 8];
        }
        #pragma unroll
        for (int b_dim_0_outer = 0; b_dim_0_outer < 2; ++b_dim_0_outer) {
            const int b_index = 8 * ko + 4 * b_dim_0_outer + b_dim_0_inner;
            if (b_index + 8 < p && 128 * bx + 2 * b_dim_1_outer + 1 < n)
                *(double2 *)&b_tile_next[b_dim_0_outer][0] =
                    *(const double2 *)&b[(b_index + 8) * n + 128 * bx + 2 * b_dim_1_outer];
        }
        __syncthreads();  // a_tile, b_tile: reads follow writes, writes follow reads
        #pragma unroll
        for (int ki = 0; ki < 8; ++ki) {
            if (8 * ko + ki < p) {
                #pragma unroll
                for (int a_tile_dim_0 = 0; a_tile_dim_0 < 4; ++a_tile_dim_0)
                    *(double2 *)&a_part[a_tile_dim_0][0] =
                        *(const double2 *)&a_tile[ko % 2][ki][32 * wi + 8 * a_tile_dim_0 + 2 * ti];
                #pragma unroll
                for (int b_tile_dim_0 = 0; b_tile_dim_0 < 4; ++b_tile_dim_0)
                    *(double2 *)&b_part[b_tile_dim_0][0] =
                        *(const double2 *)&b_tile[ko % 2][ki][64 * wj + 16 * b_tile_dim_0 + 2 * tj];
                #pragma unroll
                for (int i_hi = 0; i_hi < 4; ++i_hi) {
                    #pragma unroll
                    for (int i_lo = 0; i_lo < 2; ++i_lo) {
                        #pragma unroll
                        for (int j_hi = 0; j_hi < 4; ++j_hi) {
                            #pragma unroll
                            for (int j_lo = 0; j_lo < 2; ++j_lo)
                                acc[i_hi][i_lo][j_hi][j_lo] +=
                                    a_part[i_hi][i_lo] * b_part[j_hi][j_lo];
                        }
                    }
                }
            }
        }
    }
    if (128 * by + 32 * wi + 2 * ti < m && 128 * bx + 64 * wj + 2 * tj + 1 < n) {
        #pragma unroll
        for (int i_hi = 0; i_hi < 4; ++i_hi) {
            if (128 * by + 32 * wi + 8 * i_hi + 2 * ti < m) {
                #pragma unroll
                for (int i_lo = 0; i_lo < 2; ++i_lo) {
                    const int i = 128 * by + 32 * wi + 8 * i_hi + 2 * ti + i_lo;
                    if (i < m) {
                        #pragma unroll
                        for (int j_hi = 0; j_hi < 4; ++j_hi) {
                            if (128 * bx + 64 * wj + 16 * j_hi + 2 * tj + 1 < n)
                                *(double2 *)&c[i * n + 128 * bx + 64 * wj + 16 * j_hi + 2 * tj] =
                                    *(const double2 *)&acc[i_hi][i_lo][j_hi][0];
                        }
                    }
                }
            }
        }
    }
}
