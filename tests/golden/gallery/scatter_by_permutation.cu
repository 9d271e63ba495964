extern "C" __global__ void __launch_bounds__(32) scatter_by_permutation(const float *__restrict__ a, float *__restrict__ out, const int *__restrict__ to, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n)
        out[to[i]] = a[i];
}
