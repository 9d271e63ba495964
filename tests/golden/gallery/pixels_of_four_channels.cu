// pixels computes
//     for i in [0, n), c in [0, 4)
//         out[i, c] = min(image[i, c]*gain[c], 0.5)
// Sizes: image: n x 4, out: n x 4, gain: 4
// Launch: pixels, grid ((n + 127) / 128), block (128)
// Assumes: n >= 0; out overlaps no other array
// Indices have 32 bits: n, n + 255 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(128) pixels(
    const float4 *__restrict__ image,
    float4 *__restrict__ out,
    const float4 *__restrict__ gain,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 128 * bx + tx;
    if (i < n) {
        const float4 image_v = image[i];
        const float4 gain_v = gain[0];
        float4 out_v;
        out_v.x = fminf(image_v.x * gain_v.x, 0.5f);
        out_v.y = fminf(image_v.y * gain_v.y, 0.5f);
        out_v.z = fminf(image_v.z * gain_v.z, 0.5f);
        out_v.w = fminf(image_v.w * gain_v.w, 0.5f);
        out[i] = out_v;
    }
}
