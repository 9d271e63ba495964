extern "C" __global__ void __launch_bounds__(16) any_strides(const float *__restrict__ a, float *__restrict__ b, int n, int m, int a_stride0, int a_stride1, int a_offset)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < m)
        b[by * m + j] = 0.5f * (a[a_offset + by * a_stride0 + j * a_stride1] + a[a_offset + (n - by - 1) * a_stride0 + j * a_stride1]);
}
