// structure_of_arrays computes
//     for i in [0, n)
//         norm = sqrt(sum(k, p[i, k]*p[i, k])), k in [0, 3)
//         for l in [0, 3)
//             d[i, l] = p[i, l]/norm
//             step[i, l] = p[i, l + 1] - p[i, l]
// Sizes: p: n x 3, d: n x 3, step: n x 2
// Launch: structure_of_arrays, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; d, step overlap no other array
// Indices have 32 bits: n, 2*n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) structure_of_arrays(
    const float *__restrict__ p_s0,
    const float *__restrict__ p_s1,
    const float *__restrict__ p_s2,
    float *__restrict__ d_s0,
    float *__restrict__ d_s1,
    float *__restrict__ d_s2,
    float *__restrict__ step,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float acc = p_s0[i] * p_s0[i];
        acc += p_s1[i] * p_s1[i];
        acc += p_s2[i] * p_s2[i];
        float norm = sqrtf(acc);
        d_s0[i] = p_s0[i] / norm;
        step[i * 2] = p_s1[i] - p_s0[i];
        d_s1[i] = p_s1[i] / norm;
        step[i * 2 + 1] = p_s2[i] - p_s1[i];
        d_s2[i] = p_s2[i] / norm;
    }
}
