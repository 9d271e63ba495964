// axpy computes
//     for i in [0, n)
//         z[i] = alpha*x[i] + y[i]
// Sizes: x: n, y: n, z: n
// Launch: axpy, grid ((n + 255) / 256), block (256)
// Assumes: n >= 1; z overlaps no other array
// Indices have 32 bits: n, n + 511 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) axpy(
    const float *__restrict__ x,
    const float *__restrict__ y,
    float *__restrict__ z,
    float alpha,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 256 * bx + tx;
    if (i < n)
        z[i] = alpha * x[i] + y[i];
}
