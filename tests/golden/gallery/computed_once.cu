// computed_once computes
//     for i in [0, n)
//         weight = exp(-a[i]*a[i])
//         cse = weight + 0
//         c[i] = weight*weight + sum(k, weight*b[k]) + cse, k in [0, n)
// Sizes: a: n, b: n, c: n
// Launch: computed_once, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; c overlaps no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) computed_once(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float weight = expf(-a[i] * a[i]);
        float cse = weight + 0.0f;
        float acc = 0.0f;
        for (int k = 0; k < n; ++k)
            acc += weight * b[k];
        c[i] = weight * weight + acc + cse;
    }
}
