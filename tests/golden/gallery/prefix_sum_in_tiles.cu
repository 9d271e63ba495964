// prefix_sum_in_tiles computes
//     for i in [0, n)
//         b[i] = sum(j, a[j]), j in [0, i + 1)
// Sizes: a: n, b: n
// Launch: prefix_sum_in_tiles_0, grid ((n + 7) / 8), block (2)
// Launch: prefix_sum_in_tiles_1, grid (1), block (1)
// Launch: prefix_sum_in_tiles_2, grid ((n + 7) / 8), block (2)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, (n + 3) / 4, n + 19 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(2) prefix_sum_in_tiles_0(
    const float *__restrict__ a,
    int n,
    float *__restrict__ b_sum)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        for (int j_inner = 0; j_inner < 4; ++j_inner)
            acc += a[8 * bx + 4 * tx + j_inner];
        b_sum[2 * bx + tx] = acc;
    } else if (8 * bx + 4 * tx < n) {
        float acc = 0.0f;
        for (int j_inner = 0; j_inner < min(4, n - 8 * bx - 4 * tx); ++j_inner)
            acc += a[8 * bx + 4 * tx + j_inner];
        b_sum[2 * bx + tx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(1) prefix_sum_in_tiles_1(
    int n,
    const float *__restrict__ b_sum,
    float *__restrict__ b_carry)
{
    float acc_0 = 0.0f;
    for (int before = 0; before < (n + 3) / 4; ++before) {
        b_carry[before] = acc_0;
        acc_0 += b_sum[before];
    }
}

extern "C" __global__ void __launch_bounds__(2) prefix_sum_in_tiles_2(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    const float *__restrict__ b_carry)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (8 * bx + 7 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc_1 = b_carry[2 * bx + tx];
        for (int k = 0; k < 4; ++k) {
            const int i = 8 * bx + 4 * tx + k;
            acc_1 += a[i];
            b[i] = acc_1;
        }
    } else if (8 * bx + 4 * tx < n) {
        float acc_1 = b_carry[2 * bx + tx];
        for (int k = 0; k < min(4, n - 8 * bx - 4 * tx); ++k) {
            const int i = 8 * bx + 4 * tx + k;
            acc_1 += a[i];
            b[i] = acc_1;
        }
    }
}
