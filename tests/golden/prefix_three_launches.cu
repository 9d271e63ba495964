extern "C" __global__ void __launch_bounds__(8) prefix_0(const float *__restrict__ a, int n, float *__restrict__ b_sum)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + 31 < n) {
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

extern "C" __global__ void __launch_bounds__(1) prefix_1(int n, const float *__restrict__ b_sum, float *__restrict__ b_carry)
{
    float acc_0 = 0.0f;
    for (int before = 0; before < (n + 3) / 4; ++before) {
        b_carry[before] = acc_0;
        acc_0 += b_sum[before];
    }
}

extern "C" __global__ void __launch_bounds__(8) prefix_2(const float *__restrict__ a, float *__restrict__ b, int n, const float *__restrict__ b_carry)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + 31 < n) {
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
