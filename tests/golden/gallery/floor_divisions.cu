static __device__ __forceinline__ int floordiv_int32(int a, int b) { int q = a / b; return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q; }
static __device__ __forceinline__ int floormod_int32(int a, int b) { int r = a % b; return (r != 0 && (r < 0) != (b < 0)) ? r + b : r; }

extern "C" __global__ void __launch_bounds__(32) floor_divisions(const int *__restrict__ a, const int *__restrict__ b, int *__restrict__ q, int *__restrict__ r, int *__restrict__ wrapped, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        q[32 * bx + tx] = floordiv_int32(a[32 * bx + tx], b[32 * bx + tx]);  // insn
        r[32 * bx + tx] = floormod_int32(a[32 * bx + tx], b[32 * bx + tx]);  // insn_1
        wrapped[32 * bx + tx] = floormod_int32(a[32 * bx + tx] - 3, 7);  // insn_2
    }
}
