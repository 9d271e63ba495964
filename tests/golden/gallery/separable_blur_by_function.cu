// separable_blur_by_function computes
//     for r in [0, n + 2), blur_j in [0, n)
//         rows[r, blur_j] = a[r, blur_j] + 2*a[r, blur_j + 1] + a[r, blur_j + 2]
//     for c in [0, n), blur_j_1 in [0, n)
//         b[blur_j_1, c] = rows[blur_j_1, c] + 2*rows[blur_j_1 + 1, c] + rows[blur_j_1 + 2, c]
// Sizes: a: (n + 2) x (n + 2), rows: (n + 2) x n, b: n x n
// Launch: separable_blur_by_function_0, grid ((n + 15) / 16, (n + 1) / 16 + 1), block (16, 16)
// Launch: separable_blur_by_function_1, grid ((n + 15) / 16, (n + 15) / 16), block (16, 16)
// Assumes: n >= 0; rows, b overlap no other array
// Indices have 32 bits: (n + 2)*(n + 2), (n + 2)*n, n*n, n + 33 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) separable_blur_by_function_0(
    const float *__restrict__ a,
    float *__restrict__ rows,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = 16 * by + ty, blur_j = 16 * bx + tx;
    if (r <= n + 1 && blur_j < n) {
        const int a_offset = r * (n + 2) + blur_j;
        rows[r * n + blur_j] = a[a_offset] + 2.0f * a[a_offset + 1] + a[a_offset + 2];
    }
}

extern "C" __global__ void __launch_bounds__(256) separable_blur_by_function_1(
    const float *__restrict__ rows,
    float *__restrict__ b,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = 16 * by + ty, blur_j = 16 * bx + tx;
    if (r < n && blur_j < n)
        b[r * n + blur_j] =
            rows[r * n + blur_j] + 2.0f * rows[(r + 1) * n + blur_j] + rows[(r + 2) * n + blur_j];
}
