extern "C" __global__ void __launch_bounds__(64) function_on_a_lattice(float h, const unsigned char *__restrict__ y, float *__restrict__ f, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (8 * by + ty < n && 8 * bx + tx < n)
        f[(8 * by + ty) * n + 8 * bx + tx] = hypotf((8 * by + ty + 0.5f) * h - y[8 * bx + tx], 1.0f) + ((8 * by + ty) % 3 == 1);
}
