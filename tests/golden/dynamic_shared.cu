// reversed_rows computes
//     for r in [0, n)
//         for i0 in [0, 8192)
//             t[i0] = x[r, i0] + 0
//         for i1 in [0, 8192)
//             u[i1] = x[r, i1] + 1
//         for j in [0, 8192)
//             y[r, j] = t[8191 - j] + u[8191 - j]
// Sizes: x: n x 8192, y: n x 8192
// Launch: reversed_rows, grid (n), block (128), 65536 bytes of dynamic shared memory
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: 8192*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) reversed_rows(
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    extern __shared__ __align__(16) char shared_memory[];
    float (&t)[8192] = *(float (*)[8192])shared_memory;
    float (&u)[8192] = *(float (*)[8192])(shared_memory + 32768);
    for (int i0_outer = 0; i0_outer < 64; ++i0_outer) {
        const int i0 = 128 * i0_outer + tx;
        t[i0] = x[bx * 8192 + i0] + 0.0f;
    }
    for (int i1_outer = 0; i1_outer < 64; ++i1_outer) {
        const int i1 = 128 * i1_outer + tx;
        u[i1] = x[bx * 8192 + i1] + 1.0f;
    }
    __syncthreads();  // t, u: reads follow writes
    for (int j_outer = 0; j_outer < 64; ++j_outer) {
        const int j = 128 * j_outer + tx;
        y[bx * 8192 + j] = t[8191 - j] + u[8191 - j];
    }
}
