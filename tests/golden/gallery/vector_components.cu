// vector_components computes
//     for i in [0, n)
//         c[i, 0] = q[i, 0]
//         for k in [0, 3)
//             c[i, k + 1] = -q[i, k + 1]
//         for a in [0, 2), b in [0, 2)
//             t[a, i, b] = 2*s[1 - a, i, 1 - b]
// Sizes: q: n x 4, c: n x 4, s: 2 x n x 2, t: 2 x n x 2
// Launch: vector_components, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; c, t overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) vector_components(
    const double4 *__restrict__ q,
    double4 *__restrict__ c,
    const float2 *__restrict__ s_s0,
    const float2 *__restrict__ s_s1,
    float2 *__restrict__ t_s0,
    float2 *__restrict__ t_s1,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        c[i].x = q[i].x;
        c[i].y = -q[i].y;
        c[i].z = -q[i].z;
        c[i].w = -q[i].w;
        t_s0[i].x = 2.0f * s_s1[i].y;
        t_s0[i].y = 2.0f * s_s1[i].x;
        t_s1[i].x = 2.0f * s_s0[i].y;
        t_s1[i].y = 2.0f * s_s0[i].x;
    }
}
