// three computes
//     for i in [0, n)
//         t = both[i]*f(i)
//         both[i + n] = t + b_c[i, 2]
// Sizes: both: 2*n, b_c: n x 5
// Launch: three, grid ((n + 3) / 4), block (4)
// Assumes: n >= 0; both overlaps no other array
// Indices have 32 bits: 2*n, 5*n, n + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(4) three(
    float *__restrict__ both,
    const float *b_c,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 4 * bx + tx;
    if (i < n) {
        float t = both[i] * (2.0f * b_c[i * 5 + 1]);
        both[i + n] = t + b_c[i * 5 + 2];
    }
}
