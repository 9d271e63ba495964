// drained computes
//     for i in [0, n)
//         s[i] = sum(k, a[i, 4 - k]), k in [0, 5)
//         for k in [0, 5)
//             a[i, k] = 0
// Sizes: a: n x 5, s: n
// Launch: drained, grid ((n + 7) / 8), block (8)
// Assumes: n >= 0; a, s overlap no other array
// Indices have 32 bits: 5*n, n, 5*n + 4, n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) drained(
    int *__restrict__ a,
    int *__restrict__ s,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    if (i < n) {
        int acc = 0;
        for (int k = 0; k < 5; ++k)
            acc += (unsigned int)a[i * 5 + 4 - k];
        s[i] = acc;
        for (int k = 0; k < 5; ++k)
            a[i * 5 + k] = 0;
    }
}
