extern "C" __global__ void __launch_bounds__(256) batched_matmul_by_einsum(const float *__restrict__ p, const float *__restrict__ q, float *__restrict__ out, int Nb, int Ni, int Nk, int Nj)
{
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 16 * by + ty, k = 16 * bx + tx;
    if (i < Ni && k < Nk) {
        float acc = 0.0f;
        for (int j = 0; j < Nj; ++j)
            acc += p[bz * Nj * Ni + i * Nj + j] * q[bz * Nk * Nj + j * Nk + k];
        out[bz * Nk * Ni + i * Nk + k] = acc;
    }
}
