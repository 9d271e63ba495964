// defects computes
//     start of sum(i, defect**2)
//     for i in [0, n)
//         defect = f[i] - sum(j, m[i, j]*x[j]), j in [0, n)
//         r[i] = defect
//         one term of sum(i, defect**2)
//     norm[0] = sum(i, defect**2), i in [0, n)
// Sizes: m: n x n, x: n, f: n, r: n, norm: 1
// Launch: defects, grid (1), block (1)
// Assumes: n >= 0; r, norm overlap no other array
// Indices have 32 bits: n*n, n must not exceed 2147483647

extern "C" __global__ void defects(
    const float *__restrict__ m,
    const float *__restrict__ x,
    const float *__restrict__ f,
    float *__restrict__ r,
    float *__restrict__ norm,
    int n)
{
    float acc_0 = 0.0f;
    for (int i = 0; i < n; ++i) {
        float acc = 0.0f;
        for (int j = 0; j < n; ++j)
            acc += m[i * n + j] * x[j];
        float defect = f[i] - acc;
        r[i] = defect;
        acc_0 += defect * defect;
    }
    norm[0] = acc_0;
}
