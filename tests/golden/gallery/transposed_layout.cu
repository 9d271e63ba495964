extern "C" __global__ void __launch_bounds__(256) copy_kernel(const float *__restrict__ input, float *__restrict__ output, int n0, int n1, int input_offset, int output_offset)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (16 * bx + ty < n1 && 16 * by + tx < n0)
        output[output_offset + 16 * by + tx + (16 * bx + ty) * n0] = input[input_offset + (16 * by + tx) * n1 + 16 * bx + ty];
}
