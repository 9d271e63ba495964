// histogram_in_shared_memory computes
//     for o in [0, (n + 127) // 128)
//         for b in [0, 37)
//             mine[b] = 0
//         for i in [0, min(128, n - 128*o))
//             mine[bin[128*o + i]] = mine[bin[128*o + i]] + 1
//         for c in [0, 37)
//             count[c] = count[c] + mine[c]
// Sizes: bin: n, count: 37
// Launch: histogram_in_shared_memory, grid ((n + 127) / 128), block (128)
// Assumes: n >= 0; count overlaps no other array
// Indices have 32 bits: n, n + 255 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) histogram_in_shared_memory(
    const int *__restrict__ bin,
    int *__restrict__ count,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int position = 128 * bx + tx;
    __shared__ int mine[37];
    if (tx < 37)
        mine[tx] = 0;  // clear
    __syncthreads();  // mine: writes follow writes
    if (position < n)
        atomicAdd(&mine[bin[position]], 1);  // update
    __syncthreads();  // mine: reads follow writes
    if (tx < 37)
        atomicAdd(&count[tx], mine[tx]);
}
