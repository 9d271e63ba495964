// blur computes
//     for i in [1, n - 1)
//         out[i] = a[i - 1] + a[i] + a[i + 1]
// Sizes: a: n, out: n
// Launch: blur, grid (1), block (1)
// Assumes: n >= 3; out overlaps no other array
// Indices have 32 bits: n, n + 30 must not exceed 2147483647

extern "C" __global__ void blur(const float *__restrict__ a, float *__restrict__ out, int n)
{
    for (int tile = 0; tile < (n + 14) / 16 - 1; ++tile) {
        for (int lane = max(0, 1 - 16 * tile); lane < 16; ++lane) {
            const int i = 16 * tile + lane;
            out[i] = a[i - 1] + a[i] + a[i + 1];
        }
    }
    for (int tile = max(0, (n + 14) / 16 - 1); tile < (n + 14) / 16; ++tile) {
        for (int lane = max(0, 1 - 16 * tile); lane < min(16, n - 16 * tile - 1); ++lane) {
            const int i = 16 * tile + lane;
            out[i] = a[i - 1] + a[i] + a[i + 1];
        }
    }
}
