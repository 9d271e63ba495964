extern "C" __global__ void __launch_bounds__(16) shortest_paths(const int *d, int *e, int n, int *__restrict__ f)
{
    const int tx = threadIdx.x;
    if (n >= 1) {
        for (int p = 0; p < n; ++p) {
            for (int q_outer = 0; q_outer < (n - tx + 15) / 16; ++q_outer) {
                const int q = 16 * q_outer + tx;
                e[p * n + q] = d[p * n + q];  // copy
            }
        }
        __syncwarp();
        for (int k = 0; k < n; ++k) {
            for (int i = 0; i < n; ++i) {
                for (int j_outer = 0; j_outer < (n - tx + 15) / 16; ++j_outer) {
                    const int j = 16 * j_outer + tx;
                    f[i * n + j] = min(e[i * n + j], (int)((unsigned int)e[i * n + k] + e[k * n + j]));  // relax
                }
            }
            __syncwarp();
            for (int i = 0; i < n; ++i) {
                for (int j_outer = 0; j_outer < (n - tx + 15) / 16; ++j_outer) {
                    const int j = 16 * j_outer + tx;
                    e[i * n + j] = f[i * n + j];  // back
                }
            }
            __syncwarp();
        }
    }
}
