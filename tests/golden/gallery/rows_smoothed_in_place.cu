// rows_smoothed_in_place computes
//     for r in [0, n), s in [0, 3)
//         for i in [1, 15)
//             t[i] = (x[r, i - 1] + x[r, i + 1])/2
//         for j in [1, 15)
//             x[r, j] = t[j]
// Sizes: x: n x 16
// Launch: rows_smoothed_in_place, grid (n), block (15)
// Assumes: n >= 0
// Indices have 32 bits: 16*n must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(15) rows_smoothed_in_place(
    float *__restrict__ x,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float x_buf[16];
    if (tx < 14) {
        #pragma unroll
        for (int x_buf_init_1_outer = 0; x_buf_init_1_outer < 2; ++x_buf_init_1_outer) {
            const int position = 14 * x_buf_init_1_outer + tx;
            if (position < 16)
                x_buf[position] = x[bx * 16 + position];
        }
    }
    __syncwarp();  // x_buf: reads follow writes, writes follow writes
    float t;
    for (int s = 0; s < 3; ++s) {
        if (tx >= 1)
            t = (x_buf[tx - 1] + x_buf[tx + 1]) / 2.0f;
        __syncwarp();  // x_buf: writes follow reads
        if (tx >= 1)
            x_buf[tx] = t;
        __syncwarp();  // x_buf: reads follow writes
    }
    if (tx < 14) {
        #pragma unroll
        for (int x_buf_store_1_outer = 0; x_buf_store_1_outer < 2; ++x_buf_store_1_outer) {
            const int position = 14 * x_buf_store_1_outer + tx;
            if (position >= 1 && position < 15)
                x[bx * 16 + position] = x_buf[position];
        }
    }
}
