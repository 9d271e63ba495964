// fused_pipeline computes
//     for i in [0, n + 1)
//         edge[i] = a[i + 1] - a[i]
//     for j in [0, n)
//         bend[j] = edge[j + 1] - edge[j]
//     for k in [0, n)
//         size[k] = abs(bend[k]) + edge[k]
// Sizes: a: (n + 2), edge: (n + 1), bend: n, size: n
// Launch: fused_pipeline, grid (1), block (1)
// Assumes: n >= 1; edge, bend, size overlap no other array
// Indices have 32 bits: n + 2, n, n + 1 must not exceed 2147483647

#ifndef POLYLOOP_ABS_INT32
#define POLYLOOP_ABS_INT32
static __device__ __forceinline__ int abs_int32(int a)
{
    return a < 0 ? (int)(0 - (unsigned int)a) : a;
}
#endif

extern "C" __global__ void fused_pipeline(
    const int *a,
    int *__restrict__ edge,
    int *__restrict__ bend,
    int *__restrict__ size,
    int n)
{
    for (int i = 0; i <= n; ++i) {
        edge[i] = (unsigned int)a[i + 1] - a[i];
        if (i >= 1) {
            bend[i - 1] = (unsigned int)edge[i] - edge[i - 1];
            size[i - 1] = (unsigned int)abs_int32(bend[i - 1]) + edge[i - 1];
        }
    }
}
