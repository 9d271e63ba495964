// under_conditions computes
//     for i in [0, m)
//         up[i] = sum(j, if(a[i, j] > 0, a[i, j], 0)) if wanted[i] == 1, j in [0, n)
// Sizes: a: m x n, wanted: m, up: m
// Launch: under_conditions, grid ((m + 15) / 16), block (16)
// Assumes: m >= 0; n >= 0; up overlaps no other array
// Indices have 32 bits: m*n, m, m + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) under_conditions(
    const float *__restrict__ a,
    const int *__restrict__ wanted,
    float *__restrict__ up,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        float acc = 0.0f;
        for (int j = 0; j < n; ++j)
            acc += a[i * n + j] > 0.0f ? a[i * n + j] : 0.0f;
        if (wanted[i] == 1)
            up[i] = acc;
    }
}
