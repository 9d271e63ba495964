// twice computes
//     for i in [0, n)
//         t[i] = 2*a[i]
//         b[i] = t[i] + 1
//     for i in [0, n)
//         c[i] = t[i] + b[n - 1 - i]
// Sizes: a: n, b: n, c: n
// Launch: twice_0, grid ((n + 15) / 16), block (16)
// Launch: twice_1, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; b, c overlap no other array
// Indices have 32 bits: n, 16*((n + 15) / 16), n + 32 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) twice_0(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    float *__restrict__ t_saved)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float t = 2.0f * a[i];
        b[i] = t + 1.0f;
        t_saved[bx * 16 + tx] = t;
    }
}

extern "C" __global__ void __launch_bounds__(16) twice_1(
    const float *__restrict__ b,
    float *__restrict__ c,
    int n,
    const float *__restrict__ t_saved)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < n) {
        float t = t_saved[bx * 16 + tx];
        c[i] = t + b[n - i - 1];
    }
}
