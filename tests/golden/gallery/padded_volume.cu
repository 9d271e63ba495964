// copy_kernel computes
//     for i0 in [0, n0), i1 in [0, n1), i2 in [0, n2)
//         output[i0, i1, i2] = input[i0, i1, i2]
// Sizes: input: n0 x n1 x n2, output: n0 x n1 x n2
// Launch: copy_kernel, grid ((n2 + 15) / 16, n1, n0), block (16)
// Assumes: n0 >= 0; n1 >= 0; n2 >= 0; output overlaps no other array
// Indices have 32 bits: n0 + n1*n0 + n2*n0*n1 + input_offset,
//     8*n0*((n2 + 7) / 8)*n1 + 8*n1*((n2 + 7) / 8) + n2 + output_offset,
//     n2 + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) copy_kernel(
    const float *__restrict__ input,
    float *__restrict__ output,
    int n0,
    int n1,
    int n2,
    int input_offset,
    int output_offset)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x;
    const int i2 = 16 * bx + tx;
    if (i2 < n2)
        output[output_offset + bz * (8 * ((n2 + 7) / 8) * n1) + by * (8 * ((n2 + 7) / 8)) + i2] =
            input[input_offset + bz + by * n0 + i2 * n0 * n1];
}
