extern "C" __global__ void __launch_bounds__(16) two_tiles_in_one_pool(const float *__restrict__ a, float *__restrict__ b, double *__restrict__ c, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ union {
        float row[16];
        double sums[16];
    } pool;
    pool.row[tx] = a[bx * 16 + tx];  // insn
    __syncwarp();
    b[bx * 16 + tx] = pool.row[15 - tx];  // insn_1
    float acc = 0.0f;  // insn_2
    for (int q = 0; q <= tx; ++q)
        acc += a[bx * 16 + q];  // insn_2
    __syncwarp();
    pool.sums[tx] = acc;  // insn_2
    __syncwarp();
    c[bx * 16 + tx] = pool.sums[15 - tx];  // insn_3
}
