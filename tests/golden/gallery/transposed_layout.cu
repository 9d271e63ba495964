extern "C" __global__ void __launch_bounds__(256) copy_kernel(const float *__restrict__ input, float *__restrict__ output, int n0, int n1, int input_offset, int output_offset)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i0 = 16 * by + tx, i1 = 16 * bx + ty;
    if (i1 < n1 && i0 < n0)
        output[output_offset + i0 + i1 * n0] = input[input_offset + i0 * n1 + i1];
}
