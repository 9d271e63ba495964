extern "C" __global__ void __launch_bounds__(32) integer_hash(const unsigned int *__restrict__ x, unsigned int *__restrict__ y, unsigned int *__restrict__ ones, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        unsigned int h = (x[i] ^ (x[i] >> 16u)) * 73244475u;  // insn
        unsigned int g = h ^ (h >> 16u);  // insn_1
        y[i] = (g << 8u) | (g & 255u);  // insn_2
        ones[i] = __popc(x[i]);  // insn_3
    }
}
