extern "C" __global__ void __launch_bounds__(8) triangle_of_triangles(const int *__restrict__ a, int *__restrict__ t, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 8 * bx + tx;
    if (i < n) {
        int acc = 0;
        for (int j = 0; j <= i; ++j) {
            for (int k = 0; k <= j; ++k)
                acc += (unsigned int)a[j * n + k];
        }
        t[i] = acc;
    }
}
