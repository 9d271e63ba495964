extern "C" __global__ void bilinear_form_by_einsum(const float *__restrict__ x, const float *__restrict__ a, const float *__restrict__ y, float *__restrict__ out, int Ni, int Nj)
{
    float acc = 0.0f;
    for (int i = 0; i < Ni; ++i) {
        for (int j = 0; j < Nj; ++j)
            acc += x[i] * a[i * Nj + j] * y[j];
    }
    out[0] = acc;
}
