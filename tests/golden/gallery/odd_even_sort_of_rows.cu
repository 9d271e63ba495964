extern "C" __global__ void __launch_bounds__(32) odd_even_sort_of_rows(int *__restrict__ a, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        for (int step = 0; step < 8; ++step) {
            for (int j = 1 - ((step + 1) % 2); j < 7; j += 2) {
                bool holds = a[(32 * bx + tx) * 8 + j] > a[(32 * bx + tx) * 8 + j + 1];  // insn
                int a_new = holds ? a[(32 * bx + tx) * 8 + j] : 0;  // insn_1
                if (holds) {
                    a[(32 * bx + tx) * 8 + j] = a[(32 * bx + tx) * 8 + j + 1];  // insn_2
                    a[(32 * bx + tx) * 8 + j + 1] = a_new;  // insn_3
                }
            }
        }
    }
}
