// scatter_of_sums_and_bits computes
//     for i in [0, n)
//         sums[to[i]] = sums[to[i]] + x[i]
//         ored[to[i]] = ored[to[i]] | bits[i]
//         anded[to[i]] = anded[to[i]] & bits[i]
//         xored[to[i]] = xored[to[i]] ^ bits[i]
//         total[to[i]] = total[to[i]] - bits[i]
// Sizes: to: n, bits: n, x: n, sums: 4, ored: 4, anded: 4, and 2 more
// Launch: scatter_of_sums_and_bits, grid ((n + 63) / 64), block (64)
// Assumes: n >= 0; sums, ored, anded, xored, total overlap no other array
// Indices have 32 bits: n, n + 127 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) scatter_of_sums_and_bits(
    const int *__restrict__ to,
    const long long *__restrict__ bits,
    const float *__restrict__ x,
    float *__restrict__ sums,
    long long *__restrict__ ored,
    long long *__restrict__ anded,
    long long *__restrict__ xored,
    long long *__restrict__ total,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (i < n) {
        atomicAdd(&sums[to[i]], x[i]);
        atomicOr((unsigned long long *)&ored[to[i]], (unsigned long long)(bits[i]));
        atomicAnd((unsigned long long *)&anded[to[i]], (unsigned long long)(bits[i]));
        atomicXor((unsigned long long *)&xored[to[i]], (unsigned long long)(bits[i]));
        atomicAdd(
            (unsigned long long *)&total[to[i]],
            (unsigned long long)((long long)-(unsigned long long)bits[i]));
    }
}
