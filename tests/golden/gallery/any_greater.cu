// unchecked: all threads that write write 1
// any_greater computes
//     for i in [0, n)
//         found[0] = 1 if x[i] > 0.5
// Sizes: x: n, found: 1
// Launch: any_greater, grid ((n + 63) / 64), block (64)
// Assumes: n >= 0; found overlaps no other array
// Indices have 32 bits: n, n + 127 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) any_greater(
    const float *__restrict__ x,
    int *__restrict__ found,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (i < n && x[i] > 0.5f)
        found[0] = 1;
}
