// column_major computes
//     for i in [0, n)
//         y[i] = sum(j, a[i, j]*x[j]), j in [0, m)
// Sizes: a: n x m, x: m, y: n
// Launch: column_major, grid ((n + 31) / 32), block (32)
// Assumes: m >= 0; n >= 0; y overlaps no other array

extern "C" __global__ void __launch_bounds__(32) column_major(
    const float *__restrict__ a,
    const float *__restrict__ x,
    float *__restrict__ y,
    long long n,
    long long m)
{
    const long long bx = blockIdx.x;
    const long long tx = threadIdx.x;
    const long long i = 32 * bx + tx;
    if (i < n) {
        float acc = 0.0f;
        for (long long j = 0; j < m; ++j)
            acc += a[i + j * n] * x[j];
        y[i] = acc;
    }
}
