extern "C" __global__ void __launch_bounds__(64) function_on_a_lattice(float h, const unsigned char *__restrict__ y, float *__restrict__ f, int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    if (i < n && j < n)
        f[i * n + j] = hypotf((8 * by + ty + 0.5f) * h - y[j], 1.0f) + (i % 3 == 1);
}
