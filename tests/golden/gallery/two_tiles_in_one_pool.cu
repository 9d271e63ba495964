// two_tiles_in_one_pool computes
//     for g in [0, n)
//         for i in [0, 16)
//             row[i] = a[g, i]
//         for j in [0, 16)
//             b[g, j] = row[15 - j]
//         for p in [0, 16)
//             sums[p] = sum(q, a[g, q]), q in [0, p + 1)
//         for r in [0, 16)
//             c[g, r] = sums[15 - r]
// Sizes: a: n x 16, b: n x 16, c: n x 16
// Launch: two_tiles_in_one_pool, grid (n), block (16)
// Assumes: n >= 0; b, c overlap no other array
// Indices have 32 bits: 16*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) two_tiles_in_one_pool(
    const float *__restrict__ a,
    float *__restrict__ b,
    double *__restrict__ c,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ union {
        float row[16];
        double sums[16];
    } pool;
    pool.row[tx] = a[bx * 16 + tx];
    __syncwarp();  // row: reads follow writes; pool: others used the storage before
    b[bx * 16 + tx] = pool.row[15 - tx];
    float acc = 0.0f;
    for (int q = 0; q <= tx; ++q)
        acc += a[bx * 16 + q];
    __syncwarp();  // pool: others used the storage before
    pool.sums[tx] = acc;
    __syncwarp();  // sums: reads follow writes
    c[bx * 16 + tx] = pool.sums[15 - tx];
}
