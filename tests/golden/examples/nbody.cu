// nbody computes
//     for i in [0, n)
//         here = p[i]
//         start of sum(j, mass[j]*inverse*inverse*inverse*away)
//         for j in [0, n)
//             away = p[j] - here
//             inverse = rsqrt(square(away) + softening)
//             one term of sum(j, mass[j]*inverse*inverse*inverse*away)
//         a[i] = sum(j, mass[j]*inverse*inverse*inverse*away), j in [0, n)
// Sizes: p: n, a: n, mass: n
// Launch: nbody, grid ((n + 63) / 64), block (64)
// Assumes: n >= 1; a overlaps no other array
// Indices have 32 bits: n, n + 127 must not exceed 2147483647

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

extern "C" __global__ void __launch_bounds__(64) nbody(
    const float3 *__restrict__ p,
    float3 *__restrict__ a,
    const float *__restrict__ mass,
    float softening,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 64 * bx + tx;
    __shared__ float mass_fetch[64];
    __shared__ float3 p_fetch[64];
    if (64 * bx + 63 < n) {
        // Full blocks, without tests; full_blocks=False of the target leaves this copy out.
        float3 here = p[i];
        float3 acc = make_float3(0.0f, 0.0f, 0.0f);
        // Full tiles, without tests; the others begin at j_outer_full.
        const int j_outer_full = n / 64;
        for (int j_outer = 0; j_outer < j_outer_full; ++j_outer) {
            p_fetch[tx] = p[64 * j_outer + tx];
            mass_fetch[tx] = mass[64 * j_outer + tx];
            __syncthreads();  // p_fetch, mass_fetch: reads follow writes
            for (int j_inner = 0; j_inner < 64; ++j_inner) {
                float3 away = p_fetch[j_inner] - here;
                float inverse =
                    rsqrtf(away.x * away.x + away.y * away.y + away.z * away.z + softening);
                acc = acc + mass_fetch[j_inner] * inverse * inverse * inverse * away;
            }
            __syncthreads();  // p_fetch, mass_fetch: writes follow reads
        }
        for (int j_outer = j_outer_full; j_outer < (n + 63) / 64; ++j_outer) {
            const int position = 64 * j_outer + tx;
            if (position < n) {
                p_fetch[tx] = p[position];
                mass_fetch[tx] = mass[position];
            }
            __syncthreads();  // p_fetch, mass_fetch: reads follow writes
            for (int j_inner = 0; j_inner < n - 64 * j_outer; ++j_inner) {
                float3 away = p_fetch[j_inner] - here;
                float inverse =
                    rsqrtf(away.x * away.x + away.y * away.y + away.z * away.z + softening);
                acc = acc + mass_fetch[j_inner] * inverse * inverse * inverse * away;
            }
            __syncthreads();  // p_fetch, mass_fetch: writes follow reads
        }
        a[i] = acc;
    } else {
        float3 acc;
        float3 here;
        if (i < n) {
            here = p[i];
            acc = make_float3(0.0f, 0.0f, 0.0f);
        }
        for (int j_outer = 0; j_outer < (n + 63) / 64; ++j_outer) {
            const int position = 64 * j_outer + tx;
            if (position < n) {
                p_fetch[tx] = p[position];
                mass_fetch[tx] = mass[position];
            }
            __syncthreads();  // p_fetch, mass_fetch: reads follow writes
            if (i < n) {
                for (int j_inner = 0; j_inner < min(64, n - 64 * j_outer); ++j_inner) {
                    float3 away = p_fetch[j_inner] - here;
                    float inverse =
                        rsqrtf(away.x * away.x + away.y * away.y + away.z * away.z + softening);
                    acc = acc + mass_fetch[j_inner] * inverse * inverse * inverse * away;
                }
            }
            __syncthreads();  // p_fetch, mass_fetch: writes follow reads
        }
        if (i < n)
            a[i] = acc;
    }
}
