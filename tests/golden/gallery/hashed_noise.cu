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

extern "C" __global__ void __launch_bounds__(32) hashed_noise(float *__restrict__ noise, unsigned int seed, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        unsigned int bits = mixed((unsigned int)(32 * bx + tx) ^ seed);  // insn
        noise[i] = (float)(bits >> 8u) / 1.6777216e+07f;  // insn_1
    }
}
