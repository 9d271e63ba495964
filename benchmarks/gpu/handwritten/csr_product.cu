// A row of a sparse matrix by LANES threads.
extern "C" __global__ void __launch_bounds__(256) csr_product(
    const int *__restrict__ first, const int *__restrict__ column, const float *__restrict__ a,
    const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int row = (256 * blockIdx.x + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    float sum = 0.0f;
    if (row < n) {
        const int stop = first[row + 1];
        #pragma unroll 4
        for (int k = first[row] + lane; k < stop; k += LANES)
            sum += a[k] * x[column[k]];
    }
    #pragma unroll
    for (int step = LANES / 2; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0 && row < n)
        y[row] = sum;
}
