typedef struct {
    float sin;
    float cos;
} sincos_result;
static_assert(sizeof(sincos_result) == 8, "sincos_result is not laid out as in NumPy");

static __device__ __forceinline__ sincos_result sincos_float32(float x)
{
    sincos_result result;
    sincosf(x, &result.sin, &result.cos);
    return result;
}

extern "C" __global__ void __launch_bounds__(32) rotate(const float *__restrict__ angle, const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ u, float *__restrict__ v, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        sincos_result both = sincos_float32(angle[32 * bx + tx]);  // insn
        u[32 * bx + tx] = both.cos * x[32 * bx + tx] - both.sin * y[32 * bx + tx];  // insn_1
        v[32 * bx + tx] = both.sin * x[32 * bx + tx] + both.cos * y[32 * bx + tx];  // insn_2
    }
}
