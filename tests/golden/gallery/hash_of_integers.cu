// hash_of_integers computes
//     for i in [0, n)
//         a = key[i] ^ key[i] >> 16
//         b = a*2246822507
//         c = b ^ b >> 13
//         d = c*3266489909
//         e = d ^ d >> 16
//         h[i] = e
//         ones[i] = popcount(e)
//         zeros[i] = clz(e)
//         bucket[i] = e % 97u
// Sizes: key: n, h: n, ones: n, zeros: n, bucket: n
// Launch: hash_of_integers, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; h, ones, zeros, bucket overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_CLZ_UINT32
#define POLYLOOP_CLZ_UINT32
static __device__ __forceinline__ int clz_uint32(unsigned int a) { return a == 0 ? 32 : __clz(a); }
#endif

extern "C" __global__ void __launch_bounds__(32) hash_of_integers(
    const unsigned int *__restrict__ key,
    unsigned int *__restrict__ h,
    int *__restrict__ ones,
    int *__restrict__ zeros,
    signed char *__restrict__ bucket,
    int n)
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
        h[i] = e;
        ones[i] = __popc(e);
        zeros[i] = clz_uint32(e);
        bucket[i] = e % 97u;
    }
}
