extern "C" __global__ void __launch_bounds__(32) odd_even_sort_of_rows(int *__restrict__ a, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int row = 32 * bx + tx;
    if (row < n) {
        for (int step = 0; step < 8; ++step) {
            for (int j = 1 - ((step + 1) % 2); j < 7; j += 2) {
                bool holds = a[row * 8 + j] > a[row * 8 + j + 1];  // insn
                int a_new = holds ? a[row * 8 + j] : 0;  // insn_1
                if (holds) {
                    a[row * 8 + j] = a[row * 8 + j + 1];  // insn_2
                    a[row * 8 + j + 1] = a_new;  // insn_3
                }
            }
        }
    }
}
