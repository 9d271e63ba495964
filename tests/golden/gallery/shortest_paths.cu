extern "C" __global__ void __launch_bounds__(16) shortest_paths(const int *d, int *e, int n, int *__restrict__ f)
{
    const int tx = threadIdx.x;
    if (n >= 1) {
        for (int p = 0; p < n; ++p) {
            for (int q_outer = 0; q_outer < (n - tx + 15) / 16; ++q_outer)
                e[p * n + 16 * q_outer + tx] = d[p * n + 16 * q_outer + tx];  // copy
        }
        __syncwarp();
        for (int k = 0; k < n; ++k) {
            for (int i = 0; i < n; ++i) {
                for (int j_outer = 0; j_outer < (n - tx + 15) / 16; ++j_outer)
                    f[i * n + 16 * j_outer + tx] = min(e[i * n + 16 * j_outer + tx], e[i * n + k] + e[k * n + 16 * j_outer + tx]);  // relax
            }
            __syncwarp();
            for (int i = 0; i < n; ++i) {
                for (int j_outer = 0; j_outer < (n - tx + 15) / 16; ++j_outer)
                    e[i * n + 16 * j_outer + tx] = f[i * n + 16 * j_outer + tx];  // back
            }
            __syncwarp();
        }
    }
}
