extern "C" __global__ void fused_pipeline(const int *a, int *__restrict__ edge, int *__restrict__ bend, int *__restrict__ size, int n)
{
    for (int i = 0; i <= n; ++i) {
        edge[i] = a[i + 1] - a[i];  // insn
        if (i >= 1) {
            bend[i - 1] = edge[i] - edge[i - 1];  // insn_1
            size[i - 1] = abs(bend[i - 1]) + edge[i - 1];  // insn_2
        }
    }
}
