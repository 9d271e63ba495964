// halvings computes
//     for i in [0, n)
//         t = 0.0f
//         t, steps[i] = C('float x = a[i]; int k = 0; while (x > 1.0f) { x *= factor; ++k; } t = x;
//             steps[i] = k;')
//         b[i] = 2*t
// Sizes: a: n, b: n, steps: n
// Launch: halvings, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; b, steps overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) halvings(
    const float *__restrict__ a,
    float *__restrict__ b,
    int *__restrict__ steps,
    float factor,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        float t = 0.0f;  // begin
        {  // halve
            const int i = 32 * bx + tx;
            float x = a[i];
            int k = 0;
            while (x > 1.0f) {
                x *= factor;
                ++k;
            }
            t = x;
            steps[i] = k;
        }
        b[i] = 2.0f * t;
    }
}
