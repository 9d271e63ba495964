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
static __device__ __forceinline__ float3 operator-(float3 a, float3 b) { return make_float3(a.x - b.x, a.y - b.y, a.z - b.z); }
#endif
#ifndef POLYLOOP_OPERATOR_TIMES_FLOAT_FLOAT3
#define POLYLOOP_OPERATOR_TIMES_FLOAT_FLOAT3
static __device__ __forceinline__ float3 operator*(float a, float3 b) { return make_float3(a * b.x, a * b.y, a * b.z); }
#endif
#ifndef POLYLOOP_OPERATOR_PLUS_FLOAT3_FLOAT3
#define POLYLOOP_OPERATOR_PLUS_FLOAT3_FLOAT3
static __device__ __forceinline__ float3 operator+(float3 a, float3 b) { return make_float3(a.x + b.x, a.y + b.y, a.z + b.z); }
#endif

extern "C" __global__ void __launch_bounds__(16) forces(const particle *__restrict__ particles, float3 *__restrict__ force, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    __shared__ particle source_value[16];
    if (16 * bx + 15 < n) {
        float3 total = make_float3(0.0f, 0.0f, 0.0f);  // begin
        const int j_outer_full = n / 16;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            source_value[tx] = particles[16 * j_outer + tx];  // compute_source
            __syncwarp();
            for (int j_inner = 0; j_inner < 16; ++j_inner) {
                float3 apart = source_value[j_inner].pos - particles[i].pos;  // insn
                float near = rsqrtf(apart.x * apart.x + apart.y * apart.y + apart.z * apart.z + 0.25f);  // insn_1
                total = total + source_value[j_inner].charge * (near * near * near) * apart;  // add
            }
            __syncwarp();
        }
        for (int j_outer = j_outer_full; j_outer < (n + 15) / 16; ++j_outer) {
            if (16 * j_outer + tx < n)
                source_value[tx] = particles[16 * j_outer + tx];  // compute_source
            __syncwarp();
            for (int j_inner = 0; j_inner < n - 16 * j_outer; ++j_inner) {
                float3 apart = source_value[j_inner].pos - particles[i].pos;  // insn
                float near = rsqrtf(apart.x * apart.x + apart.y * apart.y + apart.z * apart.z + 0.25f);  // insn_1
                total = total + source_value[j_inner].charge * (near * near * near) * apart;  // add
            }
            __syncwarp();
        }
        force[i] = total;  // insn_2
    } else {
        float3 total = make_float3(0.0f, 0.0f, 0.0f);  // begin
        for (int j_outer = 0; j_outer < (n + 15) / 16; ++j_outer) {
            if (16 * j_outer + tx < n)
                source_value[tx] = particles[16 * j_outer + tx];  // compute_source
            __syncwarp();
            if (i < n) {
                for (int j_inner = 0; j_inner < min(16, n - 16 * j_outer); ++j_inner) {
                    float3 apart = source_value[j_inner].pos - particles[i].pos;  // insn
                    float near = rsqrtf(apart.x * apart.x + apart.y * apart.y + apart.z * apart.z + 0.25f);  // insn_1
                    total = total + source_value[j_inner].charge * (near * near * near) * apart;  // add
                }
            }
            __syncwarp();
        }
        if (i < n)
            force[i] = total;  // insn_2
    }
}
