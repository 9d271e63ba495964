// push_particles computes
//     for i in [0, n)
//         particles[i].pos.x = particles[i].pos.x + 0.5*particles[i].charge
//         particles[i].kind = if(particles[i].charge > 0.5, particles[i].kind + 1,
//             particles[i].kind)
// Sizes: particles: n
// Launch: push_particles, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

#ifndef POLYLOOP_PARTICLE_BE254E8E
#define POLYLOOP_PARTICLE_BE254E8E
typedef struct {
    float3 pos;
    float charge;
    int kind;
} particle;
static_assert(sizeof(particle) == 20, "particle is not laid out as in NumPy");
#endif

extern "C" __global__ void __launch_bounds__(32) push_particles(
    particle *__restrict__ particles,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        particles[i].pos.x += 0.5f * particles[i].charge;  // move
        particles[i].kind =
            particles[i].charge > 0.5f ? (int)(particles[i].kind + 1u) : particles[i].kind;
    }
}
