// histogram computes
//     for b in [0, 37)
//         count[b] = 0
//     for i in [0, n)
//         count[bin[i]] = count[bin[i]] + 1
// Sizes: bin: n, count: 37
// Launch: histogram_0, grid (1), block (37)
// Launch: histogram_1, grid ((n + 63) / 64), block (64)
// Assumes: n >= 0; count overlaps no other array
// Indices have 32 bits: n, n + 127 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(37) histogram_0(int *__restrict__ count, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    count[64 * bx + tx] = 0;
}

extern "C" __global__ void __launch_bounds__(64) histogram_1(
    const int *__restrict__ bin,
    int *__restrict__ count,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int b = 64 * bx + tx;
    if (b < n)
        atomicAdd(&count[bin[b]], 1);
}
