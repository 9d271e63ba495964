// forces computes
//     for i in [0, n)
//         total = 0
//         for j in [0, n)
//             apart = source(j).pos - particles[i].pos
//             near = rsqrt(apart.x*apart.x + apart.y*apart.y + apart.z*apart.z + 0.25)
//             total = total + source(j).charge*near**3*apart
//         force[i] = total
// Sizes: particles: n, force: n
// Launch: forces, grid ((n + 15) / 16), block (16)
// Assumes: n >= 0; force overlaps no other array
// Indices have 32 bits: n, n + 31 must not exceed 2147483647

#ifndef POLYLOOP_PARTICLE_BE254E8E
#define POLYLOOP_PARTICLE_BE254E8E
typedef struct {
    float3 pos;
    float charge;
    int kind;
} particle;
static_assert(sizeof(particle) == 20, "particle is not laid out as in NumPy");
#endif

#ifndef POLYLOOP_OPERATOR_MINUS_FLOAT3_FLOAT3
#define POLYLOOP_OPERATOR_MINUS_FLOAT3_FLOAT3
static __device__ __forceinline__ float3 operator-(float3 a, float3 b)
{
    return make_float3(a.x - b.x, a.y - b.y, a.z - b.z);
}
#endif
#ifndef POLYLOOP_OPERATOR_TIMES_FLOAT_FLOAT3
#define POLYLOOP_OPERATOR_TIMES_FLOAT_FLOAT3
static __device__ __forceinline__ float3 operator*(float a, float3 b)
{
    return make_float3(a * b.x, a * b.y, a * b.z);
}
#endif
#ifndef POLYLOOP_OPERATOR_PLUS_FLOAT3_FLOAT3
#define POLYLOOP_OPERATOR_PLUS_FLOAT3_FLOAT3
static __device__ __forceinline__ float3 operator+(float3 a, float3 b)
{
    return make_float3(a.x + b.x, a.y + b.y, a.z + b.z);
}
#endif

extern "C" __global__ void __launch_bounds__(16) forces(
    const particle *__restrict__ particles,
    float3 *__restrict__ force,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    __shared__ particle source_value[16];
    if (16 * bx + 15 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float3 total = make_float3(0.0f, 0.0f, 0.0f);  // begin
        // Full tiles, without tests; the others begin at j_outer_full.
        const int j_outer_full = n / 16;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            source_value[tx] = particles[16 * j_outer + tx];
            __syncwarp();  // source_value: reads follow writes
            for (int j_inner = 0; j_inner < 16; ++j_inner) {
                float3 apart = source_value[j_inner].pos - particles[i].pos;
                float near =
                    rsqrtf(apart.x * apart.x + apart.y * apart.y + apart.z * apart.z + 0.25f);
                total = total + source_value[j_inner].charge * (near * near * near) * apart;  // add
            }
            __syncwarp();  // source_value: writes follow reads
        }
        for (int j_outer = j_outer_full; j_outer < (n + 15) / 16; ++j_outer) {
            if (16 * j_outer + tx < n)
                source_value[tx] = particles[16 * j_outer + tx];
            __syncwarp();  // source_value: reads follow writes
            for (int j_inner = 0; j_inner < n - 16 * j_outer; ++j_inner) {
                float3 apart = source_value[j_inner].pos - particles[i].pos;
                float near =
                    rsqrtf(apart.x * apart.x + apart.y * apart.y + apart.z * apart.z + 0.25f);
                total = total + source_value[j_inner].charge * (near * near * near) * apart;  // add
            }
            __syncwarp();  // source_value: writes follow reads
        }
        force[i] = total;
    } else {
        float3 total = make_float3(0.0f, 0.0f, 0.0f);  // begin
        for (int j_outer = 0; j_outer < (n + 15) / 16; ++j_outer) {
            if (16 * j_outer + tx < n)
                source_value[tx] = particles[16 * j_outer + tx];
            __syncwarp();  // source_value: reads follow writes
            if (i < n) {
                for (int j_inner = 0; j_inner < min(16, n - 16 * j_outer); ++j_inner) {
                    float3 apart = source_value[j_inner].pos - particles[i].pos;
                    float near =
                        rsqrtf(apart.x * apart.x + apart.y * apart.y + apart.z * apart.z + 0.25f);
                    // add
                    total = total + source_value[j_inner].charge * (near * near * near) * apart;
                }
            }
            __syncwarp();  // source_value: writes follow reads
        }
        if (i < n)
            force[i] = total;
    }
}
