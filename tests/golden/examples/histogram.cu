// histogram computes
//     for bin in [0, 256)
//         count[bin] = 0
//     for block in [0, (n + 4095) // 4096)
//         for b in [0, 256)
//             own[b] = 0
//         for i in [0, min(4096, n - 4096*block))
//             at = cast(int32, x[4096*block + i])
//             own[at] = own[at] + 1
//         for c in [0, 256)
//             count[c] = count[c] + own[c]
// Sizes: x: n, count: 256
// Launch: histogram_0, grid (1), block (256)
// Launch: histogram_1, grid ((n + 4095) / 4096), block (256)
// Assumes: n >= 1; count overlaps no other array
// Indices have 32 bits: n, n + 8190 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) histogram_0(int *__restrict__ count, int n)
{
    const int tx = threadIdx.x;
    count[tx] = 0;
}

extern "C" __global__ void __launch_bounds__(256) histogram_1(
    const unsigned char *__restrict__ x,
    int *__restrict__ count,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ int own[256];
    if (4096 * bx + 4095 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        own[tx] = 0;  // start
        __syncthreads();  // own: writes follow writes
        for (int i_outer = 0; i_outer < 16; ++i_outer) {
            int at = (int)x[4096 * bx + 256 * i_outer + tx];
            atomicAdd(&own[at], 1);  // tally
        }
        __syncthreads();  // own: reads follow writes
        atomicAdd(&count[tx], own[tx]);  // merge
    } else {
        own[tx] = 0;  // start
        __syncthreads();  // own: writes follow writes
        for (int i_outer = 0; i_outer < min(16, (n - tx + 255) / 256 - 16 * bx); ++i_outer) {
            int at = (int)x[4096 * bx + 256 * i_outer + tx];
            atomicAdd(&own[at], 1);  // tally
        }
        __syncthreads();  // own: reads follow writes
        atomicAdd(&count[tx], own[tx]);  // merge
    }
}
