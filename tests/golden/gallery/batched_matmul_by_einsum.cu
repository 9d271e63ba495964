// batched_matmul_by_einsum computes
//     for b in [0, Nb), i in [0, Ni), k in [0, Nk)
//         out[b, i, k] = sum(j, p[b, i, j]*q[b, j, k]), j in [0, Nj)
// Sizes: p: Nb x Ni x Nj, q: Nb x Nj x Nk, out: Nb x Ni x Nk
// Launch: batched_matmul_by_einsum, grid ((Nk + 15) / 16, (Ni + 15) / 16, Nb), block (16, 16)
// Assumes: Nb >= 0; Ni >= 0; Nj >= 0; Nk >= 0; out overlaps no other array
// Indices have 32 bits: Nb*Nj*Ni, Nb*Nk*Nj, Nb*Nk*Ni, Ni + 31, Nk + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) batched_matmul_by_einsum(
    const float *__restrict__ p,
    const float *__restrict__ q,
    float *__restrict__ out,
    int Nb,
    int Ni,
    int Nk,
    int Nj)
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
