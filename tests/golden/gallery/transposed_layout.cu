// copy_kernel computes
//     for i0 in [0, n0), i1 in [0, n1)
//         output[i0, i1] = input[i0, i1]
// Sizes: input: n0 x n1, output: n0 x n1
// Launch: copy_kernel, grid ((n1 + 15) / 16, (n0 + 15) / 16), block (16, 16)
// Assumes: n0 >= 0; n1 >= 0; output overlaps no other array
// Indices have 32 bits: n0*n1 + input_offset, n0 + n1*n0 + output_offset, n0 + 31, n1 + 31 must not
//     exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) copy_kernel(
    const float *__restrict__ input,
    float *__restrict__ output,
    int n0,
    int n1,
    int input_offset,
    int output_offset)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i0 = 16 * by + tx, i1 = 16 * bx + ty;
    if (i1 < n1 && i0 < n0)
        output[output_offset + i0 + i1 * n0] = input[input_offset + i0 * n1 + i1];
}
