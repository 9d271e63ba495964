extern "C" __global__ void __launch_bounds__(64) binary_search(const float *__restrict__ edges, const float *__restrict__ x, int *__restrict__ bin, int m, int n)
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
