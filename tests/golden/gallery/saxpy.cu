extern "C" __global__ void __launch_bounds__(128) saxpy(float alpha, const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (128 * bx + tx < n)
        y[128 * bx + tx] = alpha * x[128 * bx + tx] + y[128 * bx + tx];
}
