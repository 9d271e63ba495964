extern "C" __global__ void __launch_bounds__(256) matmul_batched(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int p)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int e = 4 * bx + tz;
    __shared__ float a_fetch[4][8][8];
    __shared__ float b_fetch[4][8][8];
    float acc = 0.0f;  // insn
    if (e < p) {
        a_fetch[tz][ty][tx] = a[e * 64 + ty * 8 + tx];  // fetch_a
        b_fetch[tz][ty][tx] = b[e * 64 + ty * 8 + tx];  // fetch_b
    }
    __syncthreads();
    if (e < p) {
        #pragma unroll
        for (int k = 0; k < 8; ++k)
            acc += a_fetch[tz][ty][k] * b_fetch[tz][k][tx];  // insn
        c[e * 64 + ty * 8 + tx] = acc;  // insn
    }
}
