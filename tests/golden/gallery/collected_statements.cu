// collected_statements computes
//     for i in [0, n)
//         y0[i] = x[i] + 0
//         y1[i] = x[i] + 1
//         y2[i] = x[i] + 4
//         total[i] = y0[i] + y1[i] + y2[i]
// Sizes: x: n, y0: n, y1: n, y2: n, total: n
// Launch: collected_statements, grid (1), block (1)
// Assumes: n >= 0; y0, y1, y2, total overlap no other array
// Indices have 32 bits: n must not exceed 2147483647

extern "C" __global__ void collected_statements(
    const float *x,
    float *__restrict__ y0,
    float *__restrict__ y1,
    float *__restrict__ y2,
    float *__restrict__ total,
    int n)
{
    for (int i = 0; i < n; ++i) {
        y0[i] = x[i] + 0.0f;  // power0
        y1[i] = x[i] + 1.0f;  // power1
        y2[i] = x[i] + 4.0f;  // power2
        total[i] = y0[i] + y1[i] + y2[i];
    }
}
