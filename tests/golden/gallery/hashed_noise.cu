// hashed_noise computes
//     for i in [0, n)
//         bits = mixed(cast(uint32, i) ^ seed)
//         noise[i] = cast(float32, bits >> 8)/16777216.0
// Sizes: noise: n
// Launch: hashed_noise, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_MIXED_F56B780C
#define POLYLOOP_MIXED_F56B780C
static __device__ unsigned int mixed(unsigned int key)
{
    key ^= key >> 16;
    key *= 0x7feb352du;
    key ^= key >> 15;
    key *= 0x846ca68bu;
    return key ^ key >> 16;
}
#endif

extern "C" __global__ void __launch_bounds__(32) hashed_noise(
    float *__restrict__ noise,
    unsigned int seed,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        unsigned int bits = mixed((unsigned int)i ^ seed);
        noise[i] = (float)(bits >> 8u) / 1.6777216e+07f;
    }
}
