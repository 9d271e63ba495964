extern "C" __global__ void __launch_bounds__(128) histogram_in_shared_memory(const int *__restrict__ bin, int *__restrict__ count, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ int mine[37];
    if (tx < 37)
        mine[tx] = 0;  // clear
    __syncthreads();
    if (128 * bx + tx < n)
        atomicAdd(&mine[bin[128 * bx + tx]], 1);  // update
    __syncthreads();
    if (tx < 37)
        atomicAdd(&count[tx], mine[tx]);  // insn
}
