// function_on_a_lattice computes
//     for i in [0, n), j in [0, n)
//         f[i, j] = hypot((i + 0.5)*h - y[j], 1) + (i % 3 == 1)
// Sizes: y: n, f: n x n
// Launch: function_on_a_lattice, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8)
// Assumes: n >= 0; f overlaps no other array
// Indices have 32 bits: n, n*n, n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) function_on_a_lattice(
    float h,
    const unsigned char *__restrict__ y,
    float *__restrict__ f,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    if (i < n && j < n)
        f[i * n + j] = hypotf((i + 0.5f) * h - y[j], 1.0f) + (i % 3 == 1);
}
