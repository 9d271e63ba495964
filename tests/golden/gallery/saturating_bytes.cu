extern "C" __global__ void __launch_bounds__(32) saturating_bytes(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, unsigned char *__restrict__ c, bool *__restrict__ over, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        int total = (unsigned int)(int)a[i] + (int)b[i];  // insn
        over[i] = total > 255;  // insn_1
        c[i] = (unsigned char)min(total, 255);  // insn_2
    }
}
