extern "C" __global__ void __launch_bounds__(32) running_sum_of_each_row(const int *__restrict__ a, int *__restrict__ s, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        int total = 0;  // start
        for (int j = 0; j < n; ++j) {
            total += (unsigned int)a[i * n + j];  // add
            s[i * n + j] = total;  // insn
        }
    }
}
