// planes_in_two_launches computes
//     for i in [0, n), j in [0, m)
//         v[0, i, j] = u[1, i, j] + 1
//         v[1, i, j] = u[0, i, j] - 1
//     for ii in [0, n), jj in [0, m)
//         w[ii, jj] = v[0, n - 1 - ii, jj] + v[1, ii, jj]
// Sizes: u: 2 x n x m, v: 2 x n x m, w: n x m
// Launch: planes_in_two_launches_0, grid ((m + 15) / 16, n), block (16)
// Launch: planes_in_two_launches_1, grid ((m + 15) / 16, n), block (16)
// Assumes: m >= 0; n >= 0; v, w overlap no other array
// Indices have 32 bits: n*m, m + 31, n + 1 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) planes_in_two_launches_0(
    const float *__restrict__ u_s0,
    const float *__restrict__ u_s1,
    float *__restrict__ v_s0,
    float *__restrict__ v_s1,
    int n,
    int m)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < m) {
        v_s0[by * m + j] = u_s1[by * m + j] + 1.0f;
        v_s1[by * m + j] = u_s0[by * m + j] - 1.0f;
    }
}

extern "C" __global__ void __launch_bounds__(16) planes_in_two_launches_1(
    const float *__restrict__ v_s0,
    const float *__restrict__ v_s1,
    float *__restrict__ w,
    int n,
    int m)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    const int j = 16 * bx + tx;
    if (j < m)
        w[by * m + j] = v_s0[(n - by - 1) * m + j] + v_s1[by * m + j];
}
