extern "C" __global__ void __launch_bounds__(256) axpy(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, float alpha, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (256 * bx + tx < n)
        z[256 * bx + tx] = alpha * x[256 * bx + tx] + y[256 * bx + tx];
}
