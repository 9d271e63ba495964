// A thread has four neighbours of a row, and marches through PLANES planes: of these it keeps three in registers.
#define PLANES 32

static __device__ float4 four_of(const float *at)
{
    return *(const float4 *)at;
}

// Rows have a multiple of 4 elements.
extern "C" __global__ void __launch_bounds__(256) stencil(const float *__restrict__ u, float *__restrict__ v, int m, int n)
{
    const int k = 4 * (32 * blockIdx.x + threadIdx.x % 32), j = 8 * blockIdx.y + threadIdx.x / 32 + 1;
    if (k >= n || j >= n - 1)
        return;
    const int first = PLANES * blockIdx.z + 1;
    const long long plane = (long long)n * n;
    const float *at = &u[first * plane + (long long)j * n + k];
    float *to = &v[first * plane + (long long)j * n + k];
    float4 below = four_of(at - plane), here = four_of(at);
    #pragma unroll 4
    for (int i = first; i < min(first + PLANES, m - 1); ++i) {
        const float4 above = four_of(at + plane), north = four_of(at - n), south = four_of(at + n);
        const float west = k ? at[-1] : 0.0f, east = k + 4 < n ? at[4] : 0.0f;
        float4 found;
        found.x = below.x + above.x + north.x + south.x + west + here.y - 6.0f * here.x;
        found.y = below.y + above.y + north.y + south.y + here.x + here.z - 6.0f * here.y;
        found.z = below.z + above.z + north.z + south.z + here.y + here.w - 6.0f * here.z;
        found.w = below.w + above.w + north.w + south.w + here.z + east - 6.0f * here.w;
        if (k && k + 4 < n) {
            *(float4 *)to = found;
        } else {
            if (k)
                to[0] = found.x;
            to[1] = found.y;
            to[2] = found.z;
            if (k + 4 < n)
                to[3] = found.w;
        }
        below = here;
        here = above;
        at += plane;
        to += plane;
    }
}
