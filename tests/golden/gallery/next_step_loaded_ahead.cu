extern "C" __global__ void __launch_bounds__(64) next_step_loaded_ahead(const float *__restrict__ a, float *__restrict__ b, int n)
{
    const int tx = threadIdx.x;
    __shared__ float t[2][64];
    t[0][tx] = a[tx];  // first
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        if (k + 1 < n)
            t[(k + 1) % 2][tx] = a[(k + 1) * 64 + tx];  // ahead
        b[k * 64 + tx] = t[k % 2][(tx + 63) % 64] + t[k % 2][(tx + 1) % 64];  // use
        __syncthreads();
    }
}
