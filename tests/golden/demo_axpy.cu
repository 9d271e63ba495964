extern "C" __global__ void __launch_bounds__(256) axpy(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, float alpha, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 256 * bx + tx;
    if (i < n)
        z[i] = alpha * x[i] + y[i];
}
