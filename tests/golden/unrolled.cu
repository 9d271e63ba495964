// matmul computes
//     for i in [0, n), j in [0, n)
//         c[i, j] = sum(k, a[i, k]*b[k, j]), k in [0, n)
// Sizes: a: n x n, b: n x n, c: n x n
// Launch: matmul, grid (1), block (1)
// Assumes: n % 4 == 0; n >= 1; c overlaps no other array
// Indices have 32 bits: n*n, n + 4 must not exceed 2147483647

extern "C" __global__ void matmul(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            float acc = 0.0f;
            for (int k_outer = 0; k_outer < n / 4; ++k_outer) {
                #pragma unroll
                for (int k_inner = 0; k_inner < 4; ++k_inner) {
                    const int k = 4 * k_outer + k_inner;
                    acc += a[i * n + k] * b[k * n + j];
                }
            }
            c[i * n + j] = acc;
        }
    }
}
