extern "C" __global__ void __launch_bounds__(32) saturating_bytes(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, unsigned char *__restrict__ c, bool *__restrict__ over, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        int total = (int)a[32 * bx + tx] + (int)b[32 * bx + tx];  // insn
        over[32 * bx + tx] = total > 255;  // insn_1
        c[32 * bx + tx] = (unsigned char)min(total, 255);  // insn_2
    }
}
