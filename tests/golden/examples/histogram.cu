extern "C" __global__ void __launch_bounds__(256) histogram_0(int *__restrict__ count, int n)
{
    const int tx = threadIdx.x;
    count[tx] = 0;
}

extern "C" __global__ void __launch_bounds__(256) histogram_1(const unsigned char *__restrict__ x, int *__restrict__ count, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ int own[256];
    if (4096 * bx + 4095 < n) {
        own[tx] = 0;  // start
        __syncthreads();
        for (int i_outer = 0; i_outer < 16; ++i_outer) {
            int at = (int)x[4096 * bx + 256 * i_outer + tx];  // insn
            atomicAdd(&own[at], 1);  // tally
        }
        __syncthreads();
        atomicAdd(&count[tx], own[tx]);  // merge
    } else {
        own[tx] = 0;  // start
        __syncthreads();
        for (int i_outer = 0; i_outer < min(16, (n - tx + 255) / 256 - 16 * bx); ++i_outer) {
            int at = (int)x[4096 * bx + 256 * i_outer + tx];  // insn
            atomicAdd(&own[at], 1);  // tally
        }
        __syncthreads();
        atomicAdd(&count[tx], own[tx]);  // merge
    }
}
