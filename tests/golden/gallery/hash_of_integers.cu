#ifndef POLYLOOP_CLZ_UINT32
#define POLYLOOP_CLZ_UINT32
static __device__ __forceinline__ int clz_uint32(unsigned int a) { return a == 0 ? 32 : __clz(a); }
#endif

extern "C" __global__ void __launch_bounds__(32) hash_of_integers(const unsigned int *__restrict__ key, unsigned int *__restrict__ h, int *__restrict__ ones, int *__restrict__ zeros, signed char *__restrict__ bucket, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        unsigned int a = key[i] ^ (key[i] >> 16u);  // a
        unsigned int b = a * 2246822507u;  // b
        unsigned int c = b ^ (b >> 13u);  // c
        unsigned int d = c * 3266489909u;  // d
        unsigned int e = d ^ (d >> 16u);  // e
        h[i] = e;  // insn
        ones[i] = __popc(e);  // insn_1
        zeros[i] = clz_uint32(e);  // insn_2
        bucket[i] = e % 97u;  // insn_3
    }
}
