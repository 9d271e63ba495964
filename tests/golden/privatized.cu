extern "C" __global__ void __launch_bounds__(8) rotation(const float *__restrict__ a, float *__restrict__ b, float *__restrict__ c, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float t[8];
    t[tx] = 2.0f * a[bx * 8 + tx];  // set
    b[bx * 8 + tx] = t[tx] + 1.0f;  // one
    c[bx * 8 + tx] = t[tx] - 1.0f;  // two
}
