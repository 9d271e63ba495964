extern "C" __global__ void __launch_bounds__(15) rows_smoothed_in_place(float *__restrict__ x, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    __shared__ float x_buf[16];
    if (tx < 14) {
        #pragma unroll
        for (int x_buf_init_1_outer = 0; x_buf_init_1_outer < 2; ++x_buf_init_1_outer) {
            if (14 * x_buf_init_1_outer + tx < 16)
                x_buf[14 * x_buf_init_1_outer + tx] = x[bx * 16 + 14 * x_buf_init_1_outer + tx];  // init_x_buf
        }
    }
    __syncwarp();
    float t;
    for (int s = 0; s < 3; ++s) {
        if (tx >= 1)
            t = (x_buf[tx - 1] + x_buf[tx + 1]) / 2.0f;  // insn
        __syncwarp();
        if (tx >= 1)
            x_buf[tx] = t;  // insn_1
        __syncwarp();
    }
    if (tx < 14) {
        #pragma unroll
        for (int x_buf_store_1_outer = 0; x_buf_store_1_outer < 2; ++x_buf_store_1_outer) {
            if (14 * x_buf_store_1_outer + tx >= 1 && 14 * x_buf_store_1_outer + tx < 15)
                x[bx * 16 + 14 * x_buf_store_1_outer + tx] = x_buf[14 * x_buf_store_1_outer + tx];  // store_x_buf
        }
    }
}
