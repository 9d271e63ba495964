// bilinear_form_by_einsum computes
//     out = sum((i, j), x[i]*a[i, j]*y[j]), i in [0, Ni), j in [0, Nj)
// Sizes: x: Ni, a: Ni x Nj, y: Nj
// Launch: bilinear_form_by_einsum, grid (1), block (1)
// Assumes: Ni >= 0; Nj >= 0; out overlaps no other array
// Indices have 32 bits: Ni, Ni*Nj, Nj must not exceed 2147483647

extern "C" __global__ void bilinear_form_by_einsum(
    const float *__restrict__ x,
    const float *__restrict__ a,
    const float *__restrict__ y,
    float *__restrict__ out,
    int Ni,
    int Nj)
{
    float acc = 0.0f;
    for (int i = 0; i < Ni; ++i) {
        for (int j = 0; j < Nj; ++j)
            acc += x[i] * a[i * Nj + j] * y[j];
    }
    out[0] = acc;
}
