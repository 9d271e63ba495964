typedef struct {
    float3 pos;
    float charge;
    int kind;
} particle;
static_assert(sizeof(particle) == 20, "particle is not laid out as in NumPy");

extern "C" __global__ void __launch_bounds__(32) push_particles(particle *__restrict__ particles, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        particles[32 * bx + tx].pos.x += 0.5f * particles[32 * bx + tx].charge;  // move
        particles[32 * bx + tx].kind = particles[32 * bx + tx].charge > 0.5f ? particles[32 * bx + tx].kind + 1 : particles[32 * bx + tx].kind;  // insn
    }
}
