// triangle computes
//     for i in [0, n), j in [0, i + 1)
//         l[i, j] = 2*u[j, i]
// Sizes: l: n x n, u: n x n
// Launch: triangle, grid ((n + 7) / 8, (n + 7) / 8), block (8, 8)
// Assumes: n >= 1; l overlaps no other array
// Indices have 32 bits: n*n, n + 15 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) triangle(
    float *__restrict__ l,
    const float *__restrict__ u,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 8 * bx + tx;
    __shared__ float u_fetch[8][8];
    if (bx <= by) {
        if (8 * bx + ty < n && 8 * by + tx < n)
            u_fetch[ty][tx] = u[(8 * bx + ty) * n + 8 * by + tx];
        __syncthreads();  // u_fetch: reads follow writes
        if (i < n && j <= i)
            l[i * n + j] = 2.0f * u_fetch[tx][ty];
    }
}
