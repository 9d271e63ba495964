// weights computes
//     for i in [0, n)
//         top = max(l, q[i, l]), l in [0, 6)
//         start of sum(k, weight)
//         start of sum(k, weight*q[i, k])
//         for k in [0, 6)
//             weight = exp(q[i, k] - top)
//             one term of sum(k, weight)
//             one term of sum(k, weight*q[i, k])
//         total[i] = sum(k, weight), k in [0, 6)
//         mean[i] = sum(k, weight*q[i, k])/total[i], k in [0, 6)
// Sizes: q: n x 6, total: n, mean: n
// Launch: weights, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; total, mean overlap no other array
// Indices have 32 bits: 6*n, n, n + 31 must not exceed 2147483647

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern "C" __global__ void __launch_bounds__(16) weights(
    const float *q,
    float *__restrict__ total,
    float *__restrict__ mean,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float acc = -INFINITY;
        for (int l = 0; l < 6; ++l)
            acc = fmaxf(acc, q[i * 6 + l]);
        float top = acc;
        float acc_0 = 0.0f;
        float acc_1 = 0.0f;
        for (int k = 0; k < 6; ++k) {
            float weight = expf(q[i * 6 + k] - top);
            acc_0 += weight;
            acc_1 += weight * q[i * 6 + k];
        }
        total[i] = acc_0;
        mean[i] = acc_1 / total[i];
    }
}
