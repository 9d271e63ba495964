// saturating_bytes computes
//     for i in [0, n)
//         total = cast(int32, a[i]) + cast(int32, b[i])
//         over[i] = total > 255
//         c[i] = cast(uint8, min(total, 255))
// Sizes: a: n, b: n, c: n, over: n
// Launch: saturating_bytes, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; c, over overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(32) saturating_bytes(
    const unsigned char *__restrict__ a,
    const unsigned char *__restrict__ b,
    unsigned char *__restrict__ c,
    bool *__restrict__ over,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        int total = (unsigned int)(int)a[i] + (int)b[i];
        over[i] = total > 255;
        c[i] = (unsigned char)min(total, 255);
    }
}
