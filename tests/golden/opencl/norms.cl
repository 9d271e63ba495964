// norms computes
//     for i in [0, n)
//         s[i] = sum(j, a[i, j]*a[i, j]), j in [0, m)
// Sizes: a: n x m, s: n
// Launch: norms, grid (n), block (32)
// Assumes: m >= 0; n >= 0; s overlaps no other array
// Indices have 32 bits: n*m, n, m + 96 must not exceed 2147483647

// The sum of x over the 32 threads of the block, on each of them; the whole block calls it.
static inline float norms_block_sum_float32(float x, __local float *partial)
{
    partial[get_local_id(0)] = x;
    barrier(CLK_LOCAL_MEM_FENCE);  // the part of each warp is there
    x = partial[0];
    for (int n = 1; n < 32; ++n)
        x += partial[n];
    return x;
}

__kernel void __attribute__((reqd_work_group_size(32, 1, 1))) norms(
    __global const float *restrict a,
    __global float *restrict s,
    int n,
    int m)
{
    const int bx = get_group_id(0);
    const int tx = get_local_id(0);
    __local float partial[32];
    float acc = 0.0f;
    for (int j = tx; j < m; j += 32)
        acc += a[bx * m + j] * a[bx * m + j];
    acc = norms_block_sum_float32(acc, partial);
    if (tx == 0)
        s[bx] = acc;
}
