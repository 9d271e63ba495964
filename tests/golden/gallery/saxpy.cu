extern "C" __global__ void __launch_bounds__(128) saxpy(float alpha, const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 128 * bx + tx;
    if (i < n)
        y[i] = alpha * x[i] + y[i];
}
