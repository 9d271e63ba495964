// other_buffer computes
//     for i in [0, n)
//         x[1 - front, i] = x[front, n - 1 - i] + x[front, i] - x[front, n - 1 - i] + 1
// Sizes: x: 2 x n
// Launch: other_buffer, grid ((n + 31) / 32), block (32)
// Assumes: front >= 0; n >= 0; front <= 1
// Indices have 32 bits: 2*n, 3*n + 63, n + 64 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) other_buffer(
    float *__restrict__ x,
    int front,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n)
        x[(1 - front) * n + i] =
            x[front * n + n - i - 1] + x[front * n + i] - x[front * n + n - i - 1] + 1.0f;
}
