// What the headers of HIP declare, as far as generated text uses it, for a Clang without ROCm.  Functions of numbers
// that the compiler does not know itself are those of the ROCm device libraries (ocml).
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#define POLYLOOP_DEVICE static __device__ __forceinline__

typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned long size_t;

// {{{ threads and waves

struct uint3 { unsigned int x, y, z; };
struct dim3 { unsigned int x, y, z; };
POLYLOOP_DEVICE uint3 polyloop_thread() {
    return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
POLYLOOP_DEVICE uint3 polyloop_block() {
    return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}
POLYLOOP_DEVICE dim3 polyloop_threads() {
    return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z()};
}
POLYLOOP_DEVICE dim3 polyloop_blocks() {
    const dim3 block = polyloop_threads();
    return {__builtin_amdgcn_grid_size_x() / block.x, __builtin_amdgcn_grid_size_y() / block.y,
            __builtin_amdgcn_grid_size_z() / block.z};
}
#define threadIdx polyloop_thread()
#define blockIdx polyloop_block()
#define blockDim polyloop_threads()
#define gridDim polyloop_blocks()

POLYLOOP_DEVICE void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
extern "C" __attribute__((device)) int __ockl_wgred_or_i32(int);
extern "C" __attribute__((device)) int __ockl_wgred_and_i32(int);
POLYLOOP_DEVICE int __syncthreads_or(int holds) { return __ockl_wgred_or_i32(!!holds); }
POLYLOOP_DEVICE int __syncthreads_and(int holds) { return __ockl_wgred_and_i32(!!holds); }
POLYLOOP_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
POLYLOOP_DEVICE int polyloop_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }

template <class T> POLYLOOP_DEVICE T polyloop_of_lane(T value, int lane) {
    static_assert(sizeof(T) <= 8, "a shuffle moves a number");
    if constexpr (sizeof(T) == 8) {
        struct Parts { int low, high; } parts = __builtin_bit_cast(Parts, value);
        parts.low = __builtin_amdgcn_ds_bpermute(lane << 2, parts.low);
        parts.high = __builtin_amdgcn_ds_bpermute(lane << 2, parts.high);
        return __builtin_bit_cast(T, parts);
    } else if constexpr (sizeof(T) == 4) {
        return __builtin_bit_cast(T, __builtin_amdgcn_ds_bpermute(lane << 2, __builtin_bit_cast(int, value)));
    } else {
        return (T)__builtin_amdgcn_ds_bpermute(lane << 2, (int)value);
    }
}
template <class T> POLYLOOP_DEVICE T __shfl(T value, int lane, int width = POLYLOOP_WAVE) {
    return polyloop_of_lane(value, (lane & (width - 1)) + (polyloop_lane() & ~(width - 1)));
}
template <class T> POLYLOOP_DEVICE T __shfl_xor(T value, int bits, int width = POLYLOOP_WAVE) {
    const int own = polyloop_lane(), other = own ^ bits;
    return polyloop_of_lane(value, other >= ((own + width) & ~(width - 1)) ? own : other);
}
template <class T> POLYLOOP_DEVICE T __shfl_up(T value, unsigned int delta, int width = POLYLOOP_WAVE) {
    const int own = polyloop_lane(), other = own - (int)delta;
    return polyloop_of_lane(value, other < (own & ~(width - 1)) ? own : other);
}
template <class T> POLYLOOP_DEVICE T __shfl_down(T value, unsigned int delta, int width = POLYLOOP_WAVE) {
    const int own = polyloop_lane(), other = own + (int)delta;
    return polyloop_of_lane(value, (own & (width - 1)) + (int)delta >= width ? own : other);
}
#if POLYLOOP_WAVE == 64
POLYLOOP_DEVICE unsigned long long __ballot(int p) { return __builtin_amdgcn_ballot_w64(p != 0); }
#else
POLYLOOP_DEVICE unsigned long long __ballot(int p) { return __builtin_amdgcn_ballot_w32(p != 0); }
#endif
POLYLOOP_DEVICE int __any(int p) { return __ballot(p) != 0; }
POLYLOOP_DEVICE int __all(int p) { return __ballot(!p) == 0; }
POLYLOOP_DEVICE int __ffsll(unsigned long long x) { return __builtin_ffsll(x); }

// }}}
// {{{ atomic updates

#define POLYLOOP_UPDATE(name, function) \
    template <class T> POLYLOOP_DEVICE T name(T *at, decltype(T()) value) { \
        return function(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); \
    }
POLYLOOP_UPDATE(atomicAdd, __hip_atomic_fetch_add)
POLYLOOP_UPDATE(atomicMin, __hip_atomic_fetch_min)
POLYLOOP_UPDATE(atomicMax, __hip_atomic_fetch_max)
POLYLOOP_UPDATE(atomicAnd, __hip_atomic_fetch_and)
POLYLOOP_UPDATE(atomicOr, __hip_atomic_fetch_or)
POLYLOOP_UPDATE(atomicXor, __hip_atomic_fetch_xor)
POLYLOOP_UPDATE(atomicExch, __hip_atomic_exchange)
template <class T> POLYLOOP_DEVICE T atomicCAS(T *at, decltype(T()) expected, decltype(T()) value) {
    __hip_atomic_compare_exchange_strong(at, &expected, value, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}

// }}}
// {{{ numbers

POLYLOOP_DEVICE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
POLYLOOP_DEVICE unsigned int __float_as_uint(float x) { return __builtin_bit_cast(unsigned int, x); }
POLYLOOP_DEVICE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
POLYLOOP_DEVICE float __uint_as_float(unsigned int x) { return __builtin_bit_cast(float, x); }
POLYLOOP_DEVICE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
POLYLOOP_DEVICE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)
#define abs(x) __builtin_abs(x)
#define llabs(x) __builtin_llabs(x)

// Functions that the compiler knows.
#define POLYLOOP_KNOWN(name) \
    POLYLOOP_DEVICE float name##f(float x) { return __builtin_##name##f(x); } \
    POLYLOOP_DEVICE double name(double x) { return __builtin_##name(x); }
POLYLOOP_KNOWN(fabs)
POLYLOOP_KNOWN(floor)
POLYLOOP_KNOWN(ceil)
POLYLOOP_KNOWN(trunc)
POLYLOOP_KNOWN(rint)
POLYLOOP_KNOWN(nearbyint)
POLYLOOP_KNOWN(round)
POLYLOOP_KNOWN(sqrt)
#define fminf __builtin_fminf
#define fmin __builtin_fmin
#define fmaxf __builtin_fmaxf
#define fmax __builtin_fmax
#define fmaf __builtin_fmaf
#define fma __builtin_fma
#define copysignf __builtin_copysignf
#define copysign __builtin_copysign

// Those of the device libraries.
#define POLYLOOP_ONE(name, own) \
    extern "C" __device__ float __ocml_##own##_f32(float); \
    extern "C" __device__ double __ocml_##own##_f64(double); \
    POLYLOOP_DEVICE float name##f(float x) { return __ocml_##own##_f32(x); } \
    POLYLOOP_DEVICE double name(double x) { return __ocml_##own##_f64(x); }
#define POLYLOOP_TWO_NUMBERS(name, own) \
    extern "C" __device__ float __ocml_##own##_f32(float, float); \
    extern "C" __device__ double __ocml_##own##_f64(double, double); \
    POLYLOOP_DEVICE float name##f(float x, float y) { return __ocml_##own##_f32(x, y); } \
    POLYLOOP_DEVICE double name(double x, double y) { return __ocml_##own##_f64(x, y); }
POLYLOOP_ONE(cbrt, cbrt)
POLYLOOP_ONE(exp, exp)
POLYLOOP_ONE(exp2, exp2)
POLYLOOP_ONE(exp10, exp10)
POLYLOOP_ONE(expm1, expm1)
POLYLOOP_ONE(log, log)
POLYLOOP_ONE(log2, log2)
POLYLOOP_ONE(log10, log10)
POLYLOOP_ONE(log1p, log1p)
POLYLOOP_ONE(sin, sin)
POLYLOOP_ONE(cos, cos)
POLYLOOP_ONE(tan, tan)
POLYLOOP_ONE(asin, asin)
POLYLOOP_ONE(acos, acos)
POLYLOOP_ONE(atan, atan)
POLYLOOP_ONE(sinh, sinh)
POLYLOOP_ONE(cosh, cosh)
POLYLOOP_ONE(tanh, tanh)
POLYLOOP_ONE(asinh, asinh)
POLYLOOP_ONE(acosh, acosh)
POLYLOOP_ONE(atanh, atanh)
POLYLOOP_ONE(erf, erf)
POLYLOOP_ONE(erfc, erfc)
POLYLOOP_ONE(tgamma, tgamma)
POLYLOOP_ONE(lgamma, lgamma)
POLYLOOP_ONE(rsqrt, rsqrt)
POLYLOOP_ONE(sinpi, sinpi)
POLYLOOP_ONE(cospi, cospi)
POLYLOOP_TWO_NUMBERS(atan2, atan2)
POLYLOOP_TWO_NUMBERS(pow, pow)
POLYLOOP_TWO_NUMBERS(fmod, fmod)
POLYLOOP_TWO_NUMBERS(remainder, remainder)
POLYLOOP_TWO_NUMBERS(fdim, fdim)
POLYLOOP_TWO_NUMBERS(hypot, hypot)
POLYLOOP_TWO_NUMBERS(nextafter, nextafter)
#define POLYLOOP_PRIVATE __attribute__((address_space(5)))
extern "C" __device__ float __ocml_sincos_f32(float, POLYLOOP_PRIVATE float *);
extern "C" __device__ double __ocml_sincos_f64(double, POLYLOOP_PRIVATE double *);
POLYLOOP_DEVICE void sincosf(float x, float *s, float *c) {
    float other;
    *s = __ocml_sincos_f32(x, (POLYLOOP_PRIVATE float *)&other);
    *c = other;
}
POLYLOOP_DEVICE void sincos(double x, double *s, double *c) {
    double other;
    *s = __ocml_sincos_f64(x, (POLYLOOP_PRIVATE double *)&other);
    *c = other;
}
POLYLOOP_DEVICE float ldexpf(float x, int n) { return __builtin_amdgcn_ldexpf(x, n); }
POLYLOOP_DEVICE double ldexp(double x, int n) { return __builtin_amdgcn_ldexp(x, n); }
#define POLYLOOP_FAST(name, own) \
    extern "C" __device__ float __ocml_native_##own##_f32(float); \
    POLYLOOP_DEVICE float name(float x) { return __ocml_native_##own##_f32(x); }
POLYLOOP_FAST(__expf, exp)
POLYLOOP_FAST(__exp10f, exp10)
POLYLOOP_FAST(__logf, log)
POLYLOOP_FAST(__log2f, log2)
POLYLOOP_FAST(__log10f, log10)
POLYLOOP_FAST(__sinf, sin)
POLYLOOP_FAST(__cosf, cos)
POLYLOOP_DEVICE float __tanf(float x) { return tanf(x); }
POLYLOOP_DEVICE float __powf(float x, float y) { return powf(x, y); }
POLYLOOP_DEVICE float __fdividef(float x, float y) { return x / y; }

// }}}
// {{{ vectors

#define POLYLOOP_VECTORS(T, name) \
    struct __attribute__((aligned(2 * sizeof(T)))) name##2 { T x, y; }; \
    struct name##3 { T x, y, z; }; \
    struct __attribute__((aligned(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16))) name##4 { T x, y, z, w; };
#define POLYLOOP_MAKERS(T, name) \
    POLYLOOP_DEVICE name##2 make_##name##2(T x, T y) { return {x, y}; } \
    POLYLOOP_DEVICE name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
    POLYLOOP_DEVICE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
POLYLOOP_VECTORS(signed char, char)
POLYLOOP_MAKERS(signed char, char)
POLYLOOP_VECTORS(unsigned char, uchar)
POLYLOOP_MAKERS(unsigned char, uchar)
POLYLOOP_VECTORS(short, short)
POLYLOOP_MAKERS(short, short)
POLYLOOP_VECTORS(unsigned short, ushort)
POLYLOOP_MAKERS(unsigned short, ushort)
POLYLOOP_VECTORS(int, int)
POLYLOOP_MAKERS(int, int)
struct __attribute__((aligned(8))) uint2 { unsigned int x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned int x, y, z, w; };
POLYLOOP_MAKERS(unsigned int, uint)
POLYLOOP_VECTORS(long long, longlong)
POLYLOOP_MAKERS(long long, longlong)
POLYLOOP_VECTORS(unsigned long long, ulonglong)
POLYLOOP_MAKERS(unsigned long long, ulonglong)
POLYLOOP_VECTORS(float, float)
POLYLOOP_MAKERS(float, float)
POLYLOOP_VECTORS(double, double)
POLYLOOP_MAKERS(double, double)

// }}}
