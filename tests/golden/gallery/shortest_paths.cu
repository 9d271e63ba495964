// shortest_paths computes
//     for p in [0, n), q in [0, n)
//         e[p, q] = d[p, q]
//     for k in [0, n)
//         for i in [0, n), j in [0, n)
//             f[i, j] = min(e[i, j], e[i, k] + e[k, j])
//         for i in [0, n), j in [0, n)
//             e[i, j] = f[i, j]
// Sizes: d: n x n, e: n x n
// Launch: shortest_paths, grid (1), block (16)
// Assumes: n >= 0; e overlaps no other array
// Indices have 32 bits: n*n, n + 48 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(16) shortest_paths(
    const int *d,
    int *e,
    int n,
    int *__restrict__ f)
{
    const int tx = threadIdx.x;
    if (n >= 1) {
        for (int p = 0; p < n; ++p) {
            for (int q = tx; q < n; q += 16)
                e[p * n + q] = d[p * n + q];  // copy
        }
        __syncwarp();  // e: reads follow writes
        for (int k = 0; k < n; ++k) {
            for (int i = 0; i < n; ++i) {
                for (int j = tx; j < n; j += 16)
                    // relax
                    f[i * n + j] =
                        min(e[i * n + j], (int)((unsigned int)e[i * n + k] + e[k * n + j]));
            }
            __syncwarp();  // e: writes follow reads
            for (int i = 0; i < n; ++i) {
                for (int j = tx; j < n; j += 16)
                    e[i * n + j] = f[i * n + j];  // back
            }
            __syncwarp();  // e: reads follow writes
        }
    }
}
