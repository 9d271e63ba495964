typedef struct {
    float value;
    int index;
} value_index;
static_assert(sizeof(value_index) == 8, "value_index is not laid out as in NumPy");

static __device__ __forceinline__ value_index make_value_index(float value, int index)
{
    value_index result;
    result.value = value;
    result.index = index;
    return result;
}
static __device__ __forceinline__ float square_float32(float a) { return a * a; }
static __device__ __forceinline__ value_index argmin(value_index a, value_index b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

extern "C" __global__ void __launch_bounds__(16) nearest(const float *__restrict__ x, const float *__restrict__ y, int *__restrict__ near, int m, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (n >= 1 && i < m) {
        value_index acc_0 = make_value_index(__int_as_float(0x7f800000), 2147483647);
        for (int j = 0; j < n; ++j) {
            float acc = 0.0f;
            for (int d = 0; d < 3; ++d)
                acc += square_float32(x[i * 3 + d] - y[j * 3 + d]);
            acc_0 = argmin(acc_0, make_value_index(acc, j));
        }
        near[i] = acc_0.index;
    }
}
