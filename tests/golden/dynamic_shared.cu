extern "C" __global__ void __launch_bounds__(128) reversed_rows(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    extern __shared__ __align__(16) char shared_memory[];
    float (&t)[8192] = *(float (*)[8192])shared_memory;
    float (&u)[8192] = *(float (*)[8192])(shared_memory + 32768);
    for (int i0_outer = 0; i0_outer < 64; ++i0_outer)
        t[128 * i0_outer + tx] = x[bx * 8192 + 128 * i0_outer + tx] + 0.0f;  // insn
    for (int i1_outer = 0; i1_outer < 64; ++i1_outer)
        u[128 * i1_outer + tx] = x[bx * 8192 + 128 * i1_outer + tx] + 1.0f;  // insn_1
    __syncthreads();
    for (int j_outer = 0; j_outer < 64; ++j_outer)
        y[bx * 8192 + 128 * j_outer + tx] = t[8191 - 128 * j_outer - tx] + u[8191 - 128 * j_outer - tx];  // insn_2
}
