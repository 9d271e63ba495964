extern "C" __global__ void __launch_bounds__(16) rows_reversed_in_place(float *a, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float t = a[bx * 16 + 15 - tx];  // insn
    __syncthreads();
    a[bx * 16 + tx] = t;  // insn_1
}
