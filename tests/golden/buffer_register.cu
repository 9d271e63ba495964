extern "C" __global__ void __launch_bounds__(4) rows(const float *a, float *__restrict__ c, int n, int m)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (m >= 1 && 4 * bx + tx < n) {
        float c_buf = c[4 * bx + tx];  // init_c_buf
        for (int k = 0; k < m; ++k)
            c_buf += a[(4 * bx + tx) * m + k];  // insn
        c[4 * bx + tx] = c_buf;  // store_c_buf
    }
}
