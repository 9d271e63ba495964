// triangular_solve computes
//     for i in [0, n), c in [0, 20)
//         x[i, c] = (b[i, c] - sum(j, l[i, j]*x[j, c]))/l[i, i], j in [0, i)
// Sizes: l: n x n, b: n x 20, x: n x 20
// Launch: triangular_solve, grid (1), block (20)
// Assumes: n >= 0; x overlaps no other array
// Indices have 32 bits: n*n, 20*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(20) triangular_solve(
    const float *l,
    const float *b,
    float *__restrict__ x,
    int n)
{
    const int tx = threadIdx.x;
    for (int i = 0; i < n; ++i) {
        float acc = 0.0f;
        for (int j = 0; j < i; ++j)
            acc += l[i * n + j] * x[j * 20 + tx];
        x[i * 20 + tx] = (b[i * 20 + tx] - acc) / l[i * n + i];
    }
}
