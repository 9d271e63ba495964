// binary_search computes
//     for i in [0, n)
//         bin[i] = C('int low = 0, high = m; while (low < high)
//             { const int middle = (low + high) / 2; if (edges[middle] <= wanted) low = middle + 1;
//             else high = middle; } bin[p] = low;')
// Sizes: edges: m, x: n, bin: n
// Launch: binary_search, grid ((n + 63) / 64), block (64)
// Assumes: m >= 0; n >= 0; bin overlaps no other array
// Indices have 32 bits: m, n, n + 127 must not exceed 2147483647

extern "C" __global__ void __launch_bounds__(64) binary_search(
    const float *__restrict__ edges,
    const float *__restrict__ x,
    int *__restrict__ bin,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (64 * bx + tx < n) {
        {
            const int p = 64 * bx + tx;
            const float wanted = x[64 * bx + tx];
            int low = 0, high = m;
            while (low < high) {
                const int middle = (low + high) / 2;
                if (edges[middle] <= wanted) low = middle + 1; else high = middle;
            }
            bin[p] = low;
        }
    }
}
