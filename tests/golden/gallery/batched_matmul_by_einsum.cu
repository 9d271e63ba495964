extern "C" __global__ void __launch_bounds__(256) batched_matmul_by_einsum(float *__restrict__ out, const float *__restrict__ p, const float *__restrict__ q, int Nb, int Ni, int Nk, int Nj)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x, ty = threadIdx.y;
    if (16 * by + ty < Ni && 16 * bx + tx < Nk) {
        float acc = 0.0f;
        for (int j = 0; j < Nj; ++j)
            acc += p[bz * Nj * Ni + (16 * by + ty) * Nj + j] * q[bz * Nk * Nj + j * Nk + 16 * bx + tx];
        out[bz * Nk * Ni + (16 * by + ty) * Nk + 16 * bx + tx] = acc;
    }
}
