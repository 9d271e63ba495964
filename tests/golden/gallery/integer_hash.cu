extern "C" __global__ void __launch_bounds__(32) integer_hash(const unsigned int *__restrict__ x, unsigned int *__restrict__ y, unsigned int *__restrict__ ones, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        unsigned int h = (x[32 * bx + tx] ^ (x[32 * bx + tx] >> 16u)) * 73244475u;  // insn
        unsigned int g = h ^ (h >> 16u);  // insn_1
        y[32 * bx + tx] = (g << 8u) | (g & 255u);  // insn_2
        ones[32 * bx + tx] = __popc(x[32 * bx + tx]);  // insn_3
    }
}
