// saxpy computes
//     for i in [0, n)
//         y[i] = alpha*x[i] + y[i]
// Sizes: x: n, y: n
// Launch: saxpy, grid ((n + 127) / 128), block (128)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n, n + 255 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) saxpy(
    float alpha,
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 128 * bx + tx;
    if (i < n)
        y[i] = alpha * x[i] + y[i];
}
