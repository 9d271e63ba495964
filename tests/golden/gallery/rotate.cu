// rotate computes
//     for i in [0, n)
//         sincos_value = sincos(angle[i])
//         sine = sincos_value.sin
//         cosine = sincos_value.cos
//         u[i] = cosine*x[i] - sine*y[i]
//         v[i] = sine*x[i] + cosine*y[i]
// Sizes: angle: n, x: n, y: n, u: n, v: n
// Launch: rotate, grid ((n + 31) / 32), block (32)
// Assumes: n >= 0; u, v overlap no other array
// Indices have 32 bits: n, n + 63 must not exceed 2147483647

typedef struct {
    float sin;
    float cos;
} rotate_sincos_result;
static_assert(
    sizeof(rotate_sincos_result) == 8, "rotate_sincos_result is not laid out as in NumPy");

static __device__ __forceinline__ rotate_sincos_result rotate_sincos_float32(float x)
{
    rotate_sincos_result result;
    sincosf(x, &result.sin, &result.cos);
    return result;
}

extern "C" __global__ void __launch_bounds__(32) rotate(
    const float *__restrict__ angle,
    const float *__restrict__ x,
    const float *__restrict__ y,
    float *__restrict__ u,
    float *__restrict__ v,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 32 * bx + tx;
    if (i < n) {
        rotate_sincos_result sincos_value = rotate_sincos_float32(angle[i]);
        float sine = sincos_value.sin;
        float cosine = sincos_value.cos;
        u[i] = cosine * x[i] - sine * y[i];
        v[i] = sine * x[i] + cosine * y[i];
    }
}
