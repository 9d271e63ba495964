extern "C" __global__ void __launch_bounds__(64) product(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int l, int n)
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
            acc[ir][jr] = 0.0f;  // insn
    }
    if (tx < l) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            a_fetch[0][8 * a_dim_0_outer + ty][tx] = a[(16 * by + 8 * a_dim_0_outer + ty) * l + tx];  // fetch_a
    }
    if (ty < l) {
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            b_fetch[0][ty][8 * b_dim_1_outer + tx] = b[ty * n + 16 * bx + 8 * b_dim_1_outer + tx];  // fetch_b
    }
    __syncthreads();
    const int ko_full = l / 8 - 1;
    for (int ko = 0; ko < ko_full; ++ko) {
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
            a_fetch[(ko + 1) % 2][8 * a_dim_0_outer + ty][tx] = a[(16 * by + 8 * a_dim_0_outer + ty) * l + 8 * ko + tx + 8];  // fetch_a
        #pragma unroll
        for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
            b_fetch[(ko + 1) % 2][ty][8 * b_dim_1_outer + tx] = b[(8 * ko + ty + 8) * n + 16 * bx + 8 * b_dim_1_outer + tx];  // fetch_b
        for (int ki = 0; ki < 8; ++ki) {
            #pragma unroll
            for (int ir = 0; ir < 2; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr)
                    acc[ir][jr] += a_fetch[ko % 2][8 * ir + ty][ki] * b_fetch[ko % 2][ki][8 * jr + tx];  // insn
            }
        }
        __syncthreads();
    }
    for (int ko = max(0, ko_full); ko < (l + 7) / 8; ++ko) {
        if (8 * ko + tx + 8 < l) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 2; ++a_dim_0_outer)
                a_fetch[(ko + 1) % 2][8 * a_dim_0_outer + ty][tx] = a[(16 * by + 8 * a_dim_0_outer + ty) * l + 8 * ko + tx + 8];  // fetch_a
        }
        if (8 * ko + ty + 8 < l) {
            #pragma unroll
            for (int b_dim_1_outer = 0; b_dim_1_outer < 2; ++b_dim_1_outer)
                b_fetch[(ko + 1) % 2][ty][8 * b_dim_1_outer + tx] = b[(8 * ko + ty + 8) * n + 16 * bx + 8 * b_dim_1_outer + tx];  // fetch_b
        }
        for (int ki = 0; ki < min(8, l - 8 * ko); ++ki) {
            #pragma unroll
            for (int ir = 0; ir < 2; ++ir) {
                #pragma unroll
                for (int jr = 0; jr < 2; ++jr)
                    acc[ir][jr] += a_fetch[ko % 2][8 * ir + ty][ki] * b_fetch[ko % 2][ki][8 * jr + tx];  // insn
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int ir = 0; ir < 2; ++ir) {
        #pragma unroll
        for (int jr = 0; jr < 2; ++jr)
            c[(16 * by + 8 * ir + ty) * n + 16 * bx + 8 * jr + tx] = acc[ir][jr];  // insn
    }
}
