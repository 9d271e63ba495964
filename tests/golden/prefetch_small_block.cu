// blur computes
//     for i in [1, n - 1)
//         out[i] = a[i - 1] + a[i] + a[i + 1]
// Sizes: a: n, out: n
// Launch: blur, grid ((n + 62) / 64), block (16)
// Assumes: n >= 3; out overlaps no other array
// Indices have 32 bits: n, n + 158 must not exceed 2147483647

#ifndef POLYLOOP_FLOORDIV_INT32
#define POLYLOOP_FLOORDIV_INT32
static __device__ __forceinline__ int floordiv_int32(int a, int b)
{
    int q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
#endif

extern "C" __global__ void __launch_bounds__(16) blur(
    const float *__restrict__ a,
    float *__restrict__ out,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float a_fetch[66];
    if (bx >= 1 && 64 * bx + 64 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 5; ++a_dim_0_outer) {
            const int position = 16 * a_dim_0_outer + tx;
            if (position < 66)
                a_fetch[position] = a[64 * bx + position - 1];
        }
        __syncwarp();  // a_fetch: reads follow writes
        for (int i_inner_outer = 0; i_inner_outer < 4; ++i_inner_outer) {
            const int offset = 16 * i_inner_outer + tx;
            out[64 * bx + offset] = a_fetch[offset] + a_fetch[offset + 1] + a_fetch[offset + 2];
        }
    } else {
        if (64 * bx + tx <= n) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 5; ++a_dim_0_outer) {
                const int position = 16 * a_dim_0_outer + tx;
                if (position < 66
                        && 64 * bx + 16 * a_dim_0_outer + tx >= 1
                        && 64 * bx + 16 * a_dim_0_outer + tx <= n)
                    a_fetch[position] = a[64 * bx + position - 1];
            }
        }
        __syncwarp();  // a_fetch: reads follow writes
        for (int i_inner_outer = max(0, floordiv_int32(-tx, 16) - 4 * bx + 1);
                i_inner_outer < min(4, (n - tx + 14) / 16 - 4 * bx);
                ++i_inner_outer) {
            const int offset = 16 * i_inner_outer + tx;
            out[64 * bx + offset] = a_fetch[offset] + a_fetch[offset + 1] + a_fetch[offset + 2];
        }
    }
}
