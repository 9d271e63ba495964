// integer_hash computes
//     for i in [0, n)
//         h = (x[i] ^ x[i] >> 16)*73244475u
//         g = h ^ h >> 16
//         y[i] = g << 8 | g & 255
//         ones[i] = popcount(x[i])
// Sizes: x: n, y: n, ones: n
// Launch: integer_hash, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; y, ones overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) integer_hash(
    const unsigned int *__restrict__ x,
    unsigned int *__restrict__ y,
    unsigned int *__restrict__ ones,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        unsigned int h = (x[i] ^ (x[i] >> 16u)) * 73244475u;
        unsigned int g = h ^ (h >> 16u);
        y[i] = (g << 8u) | (g & 255u);
        ones[i] = __popc(x[i]);
    }
}
