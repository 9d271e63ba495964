// matmul_batched computes
//     for e in [0, p), i in [0, 8), j in [0, 8)
//         c[e, i, j] = sum(k, a[e, i, k]*b[e, k, j]), k in [0, 8)
// Sizes: a: p x 8 x 8, b: p x 8 x 8, c: p x 8 x 8
// Launch: matmul_batched, grid ((p + 3) / 4), block (8, 8, 4)
// Assumes: p >= 1; c overlaps no other array
// Indices have 32 bits: 64*p, p + 7 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(256) matmul_batched(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int p)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int e = 4 * bx + tz;
    __shared__ float a_fetch[4][8][8];
    __shared__ float b_fetch[4][8][8];
    float acc = 0.0f;
    if (e < p) {
        a_fetch[tz][ty][tx] = a[e * 64 + ty * 8 + tx];
        b_fetch[tz][ty][tx] = b[e * 64 + ty * 8 + tx];
    }
    __syncthreads();  // a_fetch, b_fetch: reads follow writes
    if (e < p) {
        #pragma unroll
        for (int k = 0; k < 8; ++k)
            acc += a_fetch[tz][ty][k] * b_fetch[tz][k][tx];
        c[e * 64 + ty * 8 + tx] = acc;
    }
}
