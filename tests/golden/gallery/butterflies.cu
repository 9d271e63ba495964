struct __align__(8) complex64 { float re, im; };

static __device__ __forceinline__ complex64 operator*(complex64 a, complex64 b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
static __device__ __forceinline__ complex64 operator+(complex64 a, complex64 b) { return {a.re + b.re, a.im + b.im}; }
static __device__ __forceinline__ complex64 operator-(complex64 a, complex64 b) { return {a.re - b.re, a.im - b.im}; }

extern "C" __global__ void __launch_bounds__(32) butterflies(const complex64 *__restrict__ a, const complex64 *__restrict__ b, const complex64 *__restrict__ w, complex64 *__restrict__ top, complex64 *__restrict__ bottom, int n)
{
    const int bx = blockIdx.x;
    const int tx = threadIdx.x;
    if (32 * bx + tx < n) {
        complex64 turned = w[32 * bx + tx] * b[32 * bx + tx];  // insn
        top[32 * bx + tx] = a[32 * bx + tx] + turned;  // insn_1
        bottom[32 * bx + tx] = a[32 * bx + tx] - turned;  // insn_2
    }
}
