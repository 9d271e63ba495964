extern "C" __global__ void __launch_bounds__(64) scatter_of_sums_and_bits(const int *__restrict__ to, const long long *__restrict__ bits, const float *__restrict__ x, float *__restrict__ sums, long long *__restrict__ ored, long long *__restrict__ anded, long long *__restrict__ xored, long long *__restrict__ total, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + tx < n) {
        atomicAdd(&sums[to[64 * bx + tx]], x[64 * bx + tx]);  // insn
        atomicOr((unsigned long long *)&ored[to[64 * bx + tx]], (unsigned long long)(bits[64 * bx + tx]));  // insn_1
        atomicAnd((unsigned long long *)&anded[to[64 * bx + tx]], (unsigned long long)(bits[64 * bx + tx]));  // insn_2
        atomicXor((unsigned long long *)&xored[to[64 * bx + tx]], (unsigned long long)(bits[64 * bx + tx]));  // insn_3
        atomicAdd((unsigned long long *)&total[to[64 * bx + tx]], (unsigned long long)(-bits[64 * bx + tx]));  // insn_4
    }
}
