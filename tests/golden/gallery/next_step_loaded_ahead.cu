// next_step_loaded_ahead computes
//     for x0 in [0, 64)
//         t[0, x0] = a[0, x0]
//     for k in [0, n - 1), x in [0, 64)
//         t[(k + 1) % 2, x] = a[k + 1, x]
//         b[k, x] = t[k % 2, (x + 63) % 64] + t[k % 2, (x + 1) % 64]
// Sizes: a: n x 64, b: n x 64
// Launch: next_step_loaded_ahead, grid (1), block (64)
// Assumes: n >= 1; b overlaps no other array
// Indices have 32 bits: 64*n, n + 1 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) next_step_loaded_ahead(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n)
{
    const int tx = threadIdx.x;
    __shared__ float t[2][64];
    t[0][tx] = a[tx];  // first
    __syncthreads();  // t: reads follow writes
    for (int k = 0; k < n; ++k) {
        if (k + 1 < n)
            t[(k + 1) % 2][tx] = a[(k + 1) * 64 + tx];  // ahead
        b[k * 64 + tx] = t[k % 2][(tx + 63) % 64] + t[k % 2][(tx + 1) % 64];  // use
        __syncthreads();  // t: reads follow writes, writes follow reads
    }
}
