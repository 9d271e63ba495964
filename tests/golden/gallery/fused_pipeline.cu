#ifndef POLYLOOP_ABS_INT32
#define POLYLOOP_ABS_INT32
static __device__ __forceinline__ int abs_int32(int a) { return a < 0 ? (int)(0 - (unsigned int)a) : a; }
#endif

extern "C" __global__ void fused_pipeline(const int *a, int *__restrict__ edge, int *__restrict__ bend, int *__restrict__ size, int n)
{
    for (int i = 0; i <= n; ++i) {
        edge[i] = (unsigned int)a[i + 1] - a[i];  // insn
        if (i >= 1) {
            bend[i - 1] = (unsigned int)edge[i] - edge[i - 1];  // insn_1
            size[i - 1] = (unsigned int)abs_int32(bend[i - 1]) + edge[i - 1];  // insn_2
        }
    }
}
