// inner_points computes
//     for i in [1, m - 1), j in [1, n - 1)
//         b[i, j] = a[i, j - 1] + a[i, j + 1] - a[i - 1, j] - a[i + 1, j]
// Sizes: a: m x n, b: m x n
// Launch: inner_points, grid ((n / 4 + 7) / 8, (m + 2) / 4), block (8)
// Assumes: n % 4 == 0; m >= 3; n >= 4; a is aligned to 16 bytes; b is aligned to 16 bytes; b
//     overlaps no other array
// Indices have 32 bits: m*n, n + 67, m + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(8) inner_points(
    const float *__restrict__ a,
    float *__restrict__ b,
    int m,
    int n)
{
    const int bx = blockIdx.x, by = blockIdx.y;
    const int tx = threadIdx.x;
    if (by >= 1 && 4 * by + 4 < m && 32 * bx + 31 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 4 * by + i_inner;
            if (8 * bx + tx >= 1 && 32 * bx + 4 * tx + 7 < n) {
                const float4 a_v = *(const float4 *)&a[(i - 1) * n + 32 * bx + 4 * tx];
                const float4 a_v_0 = *(const float4 *)&a[(i + 1) * n + 32 * bx + 4 * tx];
                const int offset = i * n + 32 * bx + 4 * tx;
                const float4 a_v_1 = *(const float4 *)&a[offset];
                float4 b_v;
                b_v.x = a[offset - 1] + a_v_1.y - a_v.x - a_v_0.x;
                b_v.y = a_v_1.x + a_v_1.z - a_v.y - a_v_0.y;
                b_v.z = a_v_1.y + a_v_1.w - a_v.z - a_v_0.z;
                b_v.w = a_v_1.z + a[offset + 4] - a_v.w - a_v_0.w;
                *(float4 *)&b[offset] = b_v;
            } else {
                for (int j_inner_inner = max(0, 1 - 32 * bx - 4 * tx);
                        j_inner_inner < min(4, n - 32 * bx - 4 * tx - 1);
                        ++j_inner_inner) {
                    const int j = 32 * bx + 4 * tx + j_inner_inner;
                    b[i * n + j] = a[i * n + j - 1]
                        + a[i * n + j + 1]
                        - a[(i - 1) * n + j]
                        - a[(i + 1) * n + j];
                }
            }
        }
    } else if (32 * bx + 4 * tx + 3 < n) {
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            const int i = 4 * by + i_inner;
            if (i >= 1 && i + 1 < m) {
                if (8 * bx + tx >= 1 && 32 * bx + 4 * tx + 7 < n) {
                    const float4 a_v = *(const float4 *)&a[(i - 1) * n + 32 * bx + 4 * tx];
                    const float4 a_v_0 = *(const float4 *)&a[(i + 1) * n + 32 * bx + 4 * tx];
                    const int offset = i * n + 32 * bx + 4 * tx;
                    const float4 a_v_1 = *(const float4 *)&a[offset];
                    float4 b_v;
                    b_v.x = a[offset - 1] + a_v_1.y - a_v.x - a_v_0.x;
                    b_v.y = a_v_1.x + a_v_1.z - a_v.y - a_v_0.y;
                    b_v.z = a_v_1.y + a_v_1.w - a_v.z - a_v_0.z;
                    b_v.w = a_v_1.z + a[offset + 4] - a_v.w - a_v_0.w;
                    *(float4 *)&b[offset] = b_v;
                } else {
                    for (int j_inner_inner = max(0, 1 - 32 * bx - 4 * tx);
                            j_inner_inner < min(4, n - 32 * bx - 4 * tx - 1);
                            ++j_inner_inner) {
                        const int j = 32 * bx + 4 * tx + j_inner_inner;
                        b[i * n + j] = a[i * n + j - 1]
                            + a[i * n + j + 1]
                            - a[(i - 1) * n + j]
                            - a[(i + 1) * n + j];
                    }
                }
            }
        }
    }
}
