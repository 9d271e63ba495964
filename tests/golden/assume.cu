extern "C" __global__ void __launch_bounds__(16) rule(const float *__restrict__ a, float *__restrict__ out, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    out[16 * bx + tx] = 2.0f * a[16 * bx + tx] + 1.0f + (2.0f * a[16 * bx + tx + 2] + 1.0f);
}
