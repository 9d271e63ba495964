// nearest computes
//     for i in [0, m)
//         near[i] = argmin(j, sum(d, (x[i, d] - y[j, d])**2), j).index, j in [0, n), d in [0, 3)
// Sizes: x: m x 3, y: n x 3, near: m
// Launch: nearest, grid ((m + 15) / 16), block (16)
// Assumes: m >= 0; n >= 0; near overlaps no other array
// Indices have 32 bits: 3*m, 3*n, m, m + 31 must not exceed 2147483647

typedef struct {
    float value;
    int index;
} nearest_value_index;
static_assert(sizeof(nearest_value_index) == 8, "nearest_value_index is not laid out as in NumPy");

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
static __device__ __forceinline__ nearest_value_index nearest_make_value_index(
    float value,
    int index)
{
    nearest_value_index result;
    result.value = value;
    result.index = index;
    return result;
}
#ifndef POLYLOOP_SQUARE_FLOAT32
#define POLYLOOP_SQUARE_FLOAT32
static __device__ __forceinline__ float square_float32(float a) { return a * a; }
#endif
static __device__ __forceinline__ nearest_value_index nearest_argmin(
    nearest_value_index a,
    nearest_value_index b)
{
    return b.value < a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

extern "C" __global__ void __launch_bounds__(16) nearest(
    const float *__restrict__ x,
    const float *__restrict__ y,
    int *__restrict__ near,
    int m,
    int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    const int i = 16 * bx + tx;
    if (i < m) {
        nearest_value_index acc_0 = nearest_make_value_index(INFINITY, 2147483647);
        for (int j = 0; j < n; ++j) {
            float acc = 0.0f;
            for (int d = 0; d < 3; ++d)
                acc += square_float32(x[i * 3 + d] - y[j * 3 + d]);
            acc_0 = nearest_argmin(acc_0, nearest_make_value_index(acc, j));
        }
        near[i] = acc_0.index;
    }
}
