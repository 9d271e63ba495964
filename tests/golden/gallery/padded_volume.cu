extern "C" __global__ void __launch_bounds__(16) copy_kernel(const float *__restrict__ input, float *__restrict__ output, int n0, int n1, int n2, int input_offset, int output_offset)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x;
    const int i2 = 16 * bx + tx;
    if (i2 < n2)
        output[output_offset + bz * (8 * ((n2 + 7) / 8) * n1) + by * (8 * ((n2 + 7) / 8)) + i2] = input[input_offset + bz + by * n0 + i2 * n0 * n1];
}
