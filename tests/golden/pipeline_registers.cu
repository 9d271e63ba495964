// product computes
//     for i in [0, m), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, l)
// Sizes: a: m x l, b: l x n, c: m x n
// Launch: product, grid (n / 16, m / 16), block (8, 8)
// Assumes: m % 16 == 0; n % 16 == 0; l >= 1; m >= 0; n >= 0; c overlaps no other array
// Indices have 32 bits: m*l, l*n, m*n, 2*l + 9, l + 24, n + 24, m + 24 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) product(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int m,
    int l,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[2][16][8];
    __shared__ float b_fetch[2][8][16];
    float acc[2][2];
    #pragma unroll
    for (int ir = 0; ir < 2; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 2; ++jr)
            acc[ir][jr] = 0.0f;
    }
    float a_fetch_next[2];
    if (tx < l) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            a_fetch_next[a_dim_0_outer] = a[(16 * by + 8 * a_dim_0_outer + ty) * l + tx];
    }
    float b_fetch_next[2];
    if (ty < l) {
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            b_fetch_next[b_dim_1_outer] = b[ty * n + 16 * bx + 8 * b_dim_1_outer + tx];
    }
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = l / 8 - 1;
    for (int ko = 0; ko < ko_full; ++ko) {
        #pragma unroll
        for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s)
            a_fetch[ko % 2][8 * a_dim_0_outer_s + ty][tx] = a_fetch_next[a_dim_0_outer_s];
        #pragma unroll
        for (int b_dim_1_outer_s = 0; b_dim_1_outer_s < 2; ++b_dim_1_outer_s)
            b_fetch[ko % 2][ty][8 * b_dim_1_outer_s + tx] = b_fetch_next[b_dim_1_outer_s];
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            a_fetch_next[a_dim_0_outer] =
                a[(16 * by + 8 * a_dim_0_outer + ty) * l + 8 * ko + tx + 8];
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            b_fetch_next[b_dim_1_outer] =
                b[(8 * ko + ty + 8) * n + 16 * bx + 8 * b_dim_1_outer + tx];
        __syncthreads();  // a_fetch, b_fetch: reads follow writes, writes follow reads
        for (int ki = 0; ki < 8; ++ki) {
            #pragma unroll
            for (int ir = 0; ir < 2; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr)
                    acc[ir][jr] +=
                        a_fetch[ko % 2][8 * ir + ty][ki] * b_fetch[ko % 2][ki][8 * jr + tx];
            }
        }
    }
    for (int ko = max(0, ko_full); ko < (l + 7) / 8; ++ko) {
        if (8 * ko + tx < l) {
            #pragma unroll
            for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s)
                a_fetch[ko % 2][8 * a_dim_0_outer_s + ty][tx] = a_fetch_next[a_dim_0_outer_s];
        }
        if (8 * ko + ty < l) {
            #pragma unroll
            for (int b_dim_1_outer_s = 0; b_dim_1_outer_s < 2; ++b_dim_1_outer_s)
                b_fetch[ko % 2][ty][8 * b_dim_1_outer_s + tx] = b_fetch_next[b_dim_1_outer_s];
        }
        if (8 * ko + tx + 8 < l) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
                a_fetch_next[a_dim_0_outer] =
                    a[(16 * by + 8 * a_dim_0_outer + ty) * l + 8 * ko + tx + 8];
        }
        if (8 * ko + ty + 8 < l) {
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                b_fetch_next[b_dim_1_outer] =
                    b[(8 * ko + ty + 8) * n + 16 * bx + 8 * b_dim_1_outer + tx];
        }
        __syncthreads();  // a_fetch, b_fetch: reads follow writes, writes follow reads
        for (int ki = 0; ki < min(8, l - 8 * ko); ++ki) {
            #pragma unroll
            for (int ir = 0; ir < 2; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr)
                    acc[ir][jr] +=
                        a_fetch[ko % 2][8 * ir + ty][ki] * b_fetch[ko % 2][ki][8 * jr + tx];
            }
        }
    }
    #pragma unroll
    for (int ir = 0; ir < 2; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 2; ++jr)
            c[(16 * by + 8 * ir + ty) * n + 16 * bx + 8 * jr + tx] = acc[ir][jr];
    }
}
