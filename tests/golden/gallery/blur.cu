// blur computes
//     for i in [0, n), j in [0, n)
//         b[i, j] = sum((p, q), w[p, q]*a[i + p, j + q]), p in [0, 3), q in [0, 3)
// Sizes: a: (n + 2) x (n + 2), b: n x n
// Launch: blur, grid ((n + 15) / 16, n), block (16)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: (n + 2)*(n + 2), n*n, n + 31 must not exceed 2147483647

__constant__ float blur_w[3][3] = {
    {0.0625f, 0.125f, 0.0625f},
    {0.125f, 0.25f, 0.125f},
    {0.0625f, 0.125f, 0.0625f},
};

extern "C" __global__ void __launch_bounds__(16) blur(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < n) {
        float acc = 0.0f;
        for (int p = 0; p < 3; ++p) {
            for (int q = 0; q < 3; ++q)
                acc += blur_w[p][q] * a[(by + p) * (n + 2) + j + q];
        }
        b[by * n + j] = acc;
    }
}
