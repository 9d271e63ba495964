extern "C" __global__ void __launch_bounds__(64) scatter_of_sums_and_bits(const int *__restrict__ to, const long long *__restrict__ bits, const float *__restrict__ x, float *__restrict__ sums, long long *__restrict__ ored, long long *__restrict__ anded, long long *__restrict__ xored, long long *__restrict__ total, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (i < n) {
        atomicAdd(&sums[to[i]], x[i]);  // insn
        atomicOr((unsigned long long *)&ored[to[i]], (unsigned long long)(bits[i]));  // insn_1
        atomicAnd((unsigned long long *)&anded[to[i]], (unsigned long long)(bits[i]));  // insn_2
        atomicXor((unsigned long long *)&xored[to[i]], (unsigned long long)(bits[i]));  // insn_3
        atomicAdd((unsigned long long *)&total[to[i]], (unsigned long long)((long long)-(unsigned long long)bits[i]));  // insn_4
    }
}
