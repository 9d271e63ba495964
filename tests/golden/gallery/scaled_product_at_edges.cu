// scaled_product_at_edges computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*s[k]*b[k, j]), k in [0, n + 2)
// Sizes: a: n x (n + 2), b: (n + 2) x n, s: (n + 2), c: n x n
// Launch: scaled_product_at_edges, grid ((n + 7) / 8, (n + 7) / 8), block (4, 4)
// Assumes: n >= 1; c overlaps no other array
// Indices have 32 bits: n*(n + 2), (n + 2)*n, n + 2, n*n, n + 19 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) scaled_product_at_edges(
    const float *__restrict__ a,
    const float *__restrict__ b,
    const float *__restrict__ s,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    __shared__ float a_fetch[2][8][4];
    __shared__ float b_fetch[2][4][8];
    __shared__ float s_fetch[2][4];
    float acc[2][2];
    #pragma unroll
    for (int ir = 0; ir < 2; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 2; ++jr)
            acc[ir][jr] = 0.0f;
    }
    float a_fetch_next[2] = {};
    #pragma unroll
    for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
        if (8 * by + 4 * a_dim_0_outer + ty < n && tx <= n + 1)
            a_fetch_next[a_dim_0_outer] = a[(8 * by + 4 * a_dim_0_outer + ty) * (n + 2) + tx];
    }
    float b_fetch_next[2] = {};
    #pragma unroll
    for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer) {
        if (ty <= n + 1 && 8 * bx + 4 * b_dim_1_outer + tx < n)
            b_fetch_next[b_dim_1_outer] = b[ty * n + 8 * bx + 4 * b_dim_1_outer + tx];
    }
    float s_fetch_next;
    if (tx <= n + 1)
        s_fetch_next = s[tx];
    // Full tiles, without tests; the others begin at ko_full.
    const int ko_full = (n + 2) / 4 - 1;
    #pragma unroll 2
    for (int ko = 0; ko < ko_full; ++ko) {
        #pragma unroll
        for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s)
            a_fetch[ko % 2][4 * a_dim_0_outer_s + ty][tx] = a_fetch_next[a_dim_0_outer_s];
        #pragma unroll
        for (int b_dim_1_outer_s = 0; b_dim_1_outer_s < 2; ++b_dim_1_outer_s)
            b_fetch[ko % 2][ty][4 * b_dim_1_outer_s + tx] = b_fetch_next[b_dim_1_outer_s];
        if (ty == 0)
            s_fetch[ko % 2][tx] = s_fetch_next;
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            if (8 * by + 4 * a_dim_0_outer + ty < n)
                a_fetch_next[a_dim_0_outer] =
                    a[(8 * by + 4 * a_dim_0_outer + ty) * (n + 2) + 4 * ko + tx + 4];
        }
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer) {
            if (8 * bx + 4 * b_dim_1_outer + tx < n)
                b_fetch_next[b_dim_1_outer] =
                    b[(4 * ko + ty + 4) * n + 8 * bx + 4 * b_dim_1_outer + tx];
        }
        s_fetch_next = s[4 * ko + tx + 4];
        __syncwarp();  // a_fetch, b_fetch, s_fetch: reads follow writes, writes follow reads
        #pragma unroll
        for (int ki = 0; ki < 4; ++ki) {
            #pragma unroll
            for (int ir = 0; ir < 2; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr)
                    acc[ir][jr] += a_fetch[ko % 2][
                        4 * ir + ty][ki] * s_fetch[ko % 2][ki] * b_fetch[ko % 2][ki][4 * jr + tx];
            }
        }
    }
    for (int ko = max(0, ko_full); ko < (n + 1) / 4 + 1; ++ko) {
        const int s_index = 4 * ko + tx;
        if (s_index <= n + 1) {
            #pragma unroll
            for (int a_dim_0_outer_s = 0; a_dim_0_outer_s < 2; ++a_dim_0_outer_s)
                a_fetch[ko % 2][4 * a_dim_0_outer_s + ty][tx] = a_fetch_next[a_dim_0_outer_s];
        }
        if (4 * ko + ty <= n + 1) {
            #pragma unroll
            for (int b_dim_1_outer_s = 0; b_dim_1_outer_s < 2; ++b_dim_1_outer_s)
                b_fetch[ko % 2][ty][4 * b_dim_1_outer_s + tx] = b_fetch_next[b_dim_1_outer_s];
        }
        if (ty == 0 && s_index <= n + 1)
            s_fetch[ko % 2][tx] = s_fetch_next;
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer) {
            if (8 * by + 4 * a_dim_0_outer + ty < n && s_index + 2 < n)
                a_fetch_next[a_dim_0_outer] =
                    a[(8 * by + 4 * a_dim_0_outer + ty) * (n + 2) + 4 * ko + tx + 4];
        }
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer) {
            if (4 * ko + ty + 2 < n && 8 * bx + 4 * b_dim_1_outer + tx < n)
                b_fetch_next[b_dim_1_outer] =
                    b[(4 * ko + ty + 4) * n + 8 * bx + 4 * b_dim_1_outer + tx];
        }
        if (s_index + 2 < n)
            s_fetch_next = s[s_index + 4];
        __syncwarp();  // a_fetch, b_fetch, s_fetch: reads follow writes, writes follow reads
        #pragma unroll
        for (int ki = 0; ki < 4; ++ki) {
            if (4 * ko + ki <= n + 1) {
                #pragma unroll
                for (int ir = 0; ir < 2; ++ir) {
                    #pragma unroll
                    for (int jr = 0; jr < 2; ++jr)
                        acc[ir][jr] += a_fetch[ko % 2][4 * ir + ty][ki]
                            * s_fetch[ko % 2][ki]
                            * b_fetch[ko % 2][ki][4 * jr + tx];
                }
            }
        }
    }
    if (8 * by + ty < n && 8 * bx + tx < n) {
        #pragma unroll
        for (int ir = 0; ir < 2; ++ir) {
            const int i = 8 * by + 4 * ir + ty;
            if (i < n) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr) {
                    const int j = 8 * bx + 4 * jr + tx;
                    if (j < n)
                        c[i * n + j] = acc[ir][jr];
                }
            }
        }
    }
}
