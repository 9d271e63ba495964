// norms computes
//     for i in [0, n)
//         s[i] = sum(k, a[i, k]**2), k in [0, m)
// Sizes: a: n x m, s: n
// Launch: norms, grid ((n + 63) / 64), block (64)
// Assumes: m % 4 == 0; m >= 0; n >= 0; a is aligned to 16 bytes; s overlaps no other array
// Indices have 32 bits: n*m, n, n + 127 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) norms(
    const float *__restrict__ a,
    float *__restrict__ s,
    int n,
    int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    if (i < n) {
        float acc = 0.0f;
        for (int k_outer = 0; k_outer < m / 4; ++k_outer) {
            const float4 a_v = *(const float4 *)&a[i * m + 4 * k_outer];
            acc += a_v.x * a_v.x;
            acc += a_v.y * a_v.y;
            acc += a_v.z * a_v.z;
            acc += a_v.w * a_v.w;
        }
        s[i] = acc;
    }
}
