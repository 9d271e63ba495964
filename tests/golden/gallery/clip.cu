// clip computes
//     for i in [0, n), j in [0, n)
//         y[i, j] = x[i, j] if -1 < x[i, j] and x[i, j] < 1
//         y[i, j] = 1 if not (-1 < x[i, j] and x[i, j] < 1) if x[i, j] > 0
//         y[i, j] = -1 if not (-1 < x[i, j] and x[i, j] < 1) if not x[i, j] > 0
// Sizes: x: n x n, y: n x n
// Launch: clip, grid ((n + 15) / 16, (n + 7) / 8), block (16, 8)
// Assumes: n >= 0; y overlaps no other array
// Indices have 32 bits: n*n, n + 31 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) clip(
    const float *__restrict__ x,
    float *__restrict__ y,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int i = 8 * by + ty, j = 16 * bx + tx;
    if (i < n && j < n) {
        const int offset = i * n + j;
        if (-1.0f < x[offset] && x[offset] < 1.0f) {
            y[offset] = x[offset];
        } else if (x[offset] > 0.0f) {
            y[offset] = 1.0f;
        } else {
            y[offset] = -1.0f;
        }
    }
}
