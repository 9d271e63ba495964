// any_strides computes
//     for i in [0, n), j in [0, m)
//         b[i, j] = 0.5*(a[i, j] + a[n - 1 - i, j])
// Sizes: a: n x m, b: n x m
// Launch: any_strides, grid ((m + 15) / 16, n), block (16)
// Assumes: m >= 0; n >= 0; b overlaps no other array
// Indices have 32 bits: n*abs(a_stride0) + m*abs(a_stride1) + a_offset, n*m, m + 31,
//     n + 1 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) any_strides(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    int m,
    int a_stride0,
    int a_stride1,
    int a_offset)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < m)
        b[by * m + j] = 0.5f * (
            a[a_offset + by * a_stride0 + j * a_stride1]
            + a[a_offset + (n - by - 1) * a_stride0 + j * a_stride1]);
}
