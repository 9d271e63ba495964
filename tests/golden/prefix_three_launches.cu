// prefix computes
//     for i in [0, n)
//         b[i] = sum(j, a[j]), j in [0, i + 1)
// Sizes: a: n, b: n
// Launch: prefix_0, grid ((n + 31) / 32), block (8)
// Launch: prefix_1, grid (1), block (1)
// Launch: prefix_2, grid ((n + 31) / 32), block (8)
// Assumes: n >= 0; b overlaps no other array
// Indices have 32 bits: n, (n + 3) / 4, n + 67 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) prefix_0(
    const float *__restrict__ a,
    int n,
    float *__restrict__ b_sum)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc = 0.0f;
        for (int j_inner = 0; j_inner < 4; ++j_inner)
            acc += a[32 * bx + 4 * tx + j_inner];
        b_sum[8 * bx + tx] = acc;
    } else if (32 * bx + 4 * tx < n) {
        float acc = 0.0f;
        for (int j_inner = 0; j_inner < min(4, n - 32 * bx - 4 * tx); ++j_inner)
            acc += a[32 * bx + 4 * tx + j_inner];
        b_sum[8 * bx + tx] = acc;
    }
}

extern "C" __global__ void __launch_bounds__(1) prefix_1(
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

extern "C" __global__ void __launch_bounds__(8) prefix_2(
    const float *__restrict__ a,
    float *__restrict__ b,
    int n,
    const float *__restrict__ b_carry)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float acc_1 = b_carry[8 * bx + tx];
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 32 * bx + 4 * tx + i_inner;
            acc_1 += a[i];
            b[i] = acc_1;
        }
    } else if (32 * bx + 4 * tx < n) {
        float acc_1 = b_carry[8 * bx + tx];
        for (int i_inner = 0; i_inner < min(4, n - 32 * bx - 4 * tx); ++i_inner) {
            const int i = 32 * bx + 4 * tx + i_inner;
            acc_1 += a[i];
            b[i] = acc_1;
        }
    }
}
