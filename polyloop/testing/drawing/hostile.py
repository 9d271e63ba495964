"""Hostile names, which mean something in C, CUDA or Python, for tests and for the fuzzer."""

from __future__ import annotations

import builtins
import keyword
from typing import Final

__all__ = ["HOSTILE"]

_C: Final = """
HUGE_VAL HUGE_VALF INFINITY NAN INT8_MAX INT8_MIN INT16_MAX INT32_MAX INT64_MAX UINT8_MAX UINT32_C INT64_C SIZE_MAX
PTRDIFF_MAX RAND_MAX MB_CUR_MAX EXIT_FAILURE EXIT_SUCCESS FP_NAN FP_INFINITE FP_ZERO FP_NORMAL FP_SUBNORMAL FP_ILOGB0
MATH_ERRNO M_PI M_E M_LN2 M_SQRT2 MAXFLOAT NULL EOF errno stdin stdout stderr assert I complex imaginary bool true
false linux unix i386 isnan isinf isfinite isnormal signbit fpclassify isless isgreater offsetof INTMAX_MAX WCHAR_MAX
CHAR_BIT INT_MAX INT_MIN UINT_MAX LONG_MAX FLT_MAX FLT_EPSILON DBL_MAX DBL_EPSILON DBL_MIN DECIMAL_DIG BUFSIZ CMPLX
CMPLXF alloca alignas static_assert thread_local noreturn EDOM ERANGE EINVAL SIGINT SIGFPE FE_INVALID FE_ALL_EXCEPT
PRId64 PRIu32 SCNd32 LITTLE_ENDIAN BYTE_ORDER major minor
"""
_FUNCTIONS: Final = """
sqrtf expf fmaxf fminf fabsf sinf cosf powf logf floorf fmodf sqrt exp fmax abs labs llabs step read remove write exit
abort printf memcpy memset memmove memcmp malloc free calloc realloc strlen strcpy puts getenv system signal raise
time clock sleep index rindex link unlink select send recv bind listen accept connect socket pipe fork wait kill open
close main _start _init _fini _end _exit environ qsort bsearch rand random srand div ldiv atoi gamma lgamma j0 j1 jn
y0 y1 yn drem significand scalb pow10 exp10f sincosf nan nextafterf log1pf tgamma erff
"""
_CUDA: Final = """
threadIdx blockIdx blockDim gridDim warpSize dim3 float2 float3 float4 int2 int4 uint3 double2 half half2 make_float4
make_int2 __shfl_sync __syncthreads __global__ __device__ __shared__ __ldg __int_as_float atomicAdd atomicCAS
atomicMax atomicExch clock64 norm3df rnorm3df rsqrtf rcbrtf sinpif cospif erfinvf normcdff umin umax llmin fdividef
saturate tex2D surf2Dread cudaError_t curand nv_bfloat16 trap brkpt __half __nv_bfloat16 all any ballot
"""
_CXX: Final = """
class new this template and or xor not bitand bitor compl and_eq or_eq xor_eq not_eq operator typename namespace
virtual private public protected friend explicit mutable delete throw catch try using nullptr constexpr decltype
noexcept export import module requires concept co_await co_yield final override asm typeof restrict inline register
volatile auto signed unsigned goto switch case default union struct enum typedef extern static const continue do
int8_t int32_t uint64_t size_t intptr_t std
"""
_OURS: Final = """
floordiv_int32 floormod_int32 floordiv_int64 min_int32 max_int32 square_float32 power_int32 to_float to_float16 pack
load_pair complex64 complex128 float16 bfloat16 bfloat16x8 float32x8 cp_async_4 cp_async_commit cp_async_wait
ldmatrix_x4 mma_m16n8k16_f16 bx by bz tx ty tz t partial shared_memory totals ticket next_block i_inner i_outer
a_fetch acc acc_0 value_index result atomic_max_float32 gcd_int32 clz_uint32 sinpi_float32 polyloop
POLYLOOP_FLOORDIV_INT32 make_value_index k_value_index x y a b r q
"""
_PYTHON: Final = """
stream poison self args kwargs out queue grid block device keys values items names run bind program result arguments
value None True False lambda def async await from is in pass raise yield with global nonlocal del elif except finally
match type print len id object __class__ __init__ __v0 given entry checked handle
"""
HOSTILE: Final = tuple(dict.fromkeys([
    *(_C + _FUNCTIONS + _CUDA + _CXX + _OURS + _PYTHON).split(), *keyword.kwlist, *keyword.softkwlist,
    *(name for name in dir(builtins) if name.islower() and len(name) < 7),
]))  # fmt: skip
"""Over 400 of them; some cannot be names of a kernel, and are refused when one is made."""
