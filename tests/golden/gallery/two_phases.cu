// two_phases computes
//     for j in [0, n)
//         total[j] = sum(i, a[i, j]), i in [0, n)
//     for ii in [0, n), jj in [0, n)
//         t[ii, jj] = a[ii, jj]/total[jj]
//     for k in [0, n), l in [0, n)
//         b[k, l] = t[l, k]
// Sizes: a: n x n, b: n x n
// Launch: two_phases_0, grid ((n + 15) / 16), block (16)
// Launch: two_phases_1, grid ((n + 15) / 16, n), block (16)
// Launch: two_phases_2, grid ((n + 15) / 16, n), block (16)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, n*n, n + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) two_phases_0(
    const float *__restrict__ a,
    int n,
    float *__restrict__ total)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < n) {
        float acc = 0.0f;
        for (int i = 0; i < n; ++i)
            acc += a[i * n + j];
        total[j] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(16) two_phases_1(
    const float *__restrict__ a,
    int n,
    const float *__restrict__ total,
    float *__restrict__ t)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < n)
        t[by * n + j] = a[by * n + j] / total[j];
}

extern "C" __global__ void __launch_bounds__(16) two_phases_2(
    float *__restrict__ b,
    int n,
    const float *__restrict__ t)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < n)
        b[by * n + j] = t[j * n + by];
}
