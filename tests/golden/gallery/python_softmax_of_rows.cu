// python_softmax_of_rows computes
//     for i in [0, n)
//         top = max(j, x[i, j]), j in [0, n)
//         total = sum(j_1, exp(x[i, j_1] - top)), j_1 in [0, n)
//         for j_2 in [0, n)
//             y[i, j_2] = exp(x[i, j_2] - top)/total
// Sizes: x: n x n, y: n x n
// Launch: python_softmax_of_rows, grid ((n + 15) / 16), block (16)
// Assumes: n >= 1; y overlaps no other array
// Indices have 32 bits: n*n, n + 31 must not exceed 2147483647

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern "C" __global__ void __launch_bounds__(16) python_softmax_of_rows(
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float acc = -INFINITY;
        for (int j = 0; j < n; ++j)
            acc = fmaxf(acc, x[i * n + j]);
        float top = acc;
        float acc_0 = 0.0f;
        for (int j_1 = 0; j_1 < n; ++j_1)
            acc_0 += expf(x[i * n + j_1] - top);
        float total = acc_0;
        for (int j_2 = 0; j_2 < n; ++j_2)
            y[i * n + j_2] = expf(x[i * n + j_2] - top) / total;
    }
}
