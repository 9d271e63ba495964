// rows_reversed_in_place computes
//     for row in [0, n)
//         for i in [0, 16)
//             t[i] = a[row, 15 - i]
//         barrier of the block
//         for i in [0, 16)
//             a[row, i] = t[i]
// Sizes: a: n x 16
// Launch: rows_reversed_in_place, grid (n), block (16)
// Assumes: n >= 0
// Indices have 32 bits: 16*n, 16*n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) rows_reversed_in_place(float *a, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    float t = a[bx * 16 + 15 - tx];
    __syncthreads();  // a: writes follow reads
    a[bx * 16 + tx] = t;
}
