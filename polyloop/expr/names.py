"""Names that are valid identifiers in generated C and CUDA source."""

from __future__ import annotations

import re
from typing import Final

from polyloop.errors import Diagnostic
from polyloop.expr.functions import FUNCTIONS

__all__ = ["KERNEL_NAME", "RESERVED", "RULE_NAME", "check_identifier", "is_identifier", "tagged_name",
           "too_many_axes"]

_C11 = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
_Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert _Thread_local asm typeof
"""
_CXX = """
alignas alignof and and_eq bitand bitor bool catch char8_t char16_t char32_t class compl concept const_cast consteval
constexpr constinit co_await co_return co_yield decltype delete dynamic_cast explicit export false friend mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast requires
static_assert static_cast template this thread_local throw true try typeid typename using virtual wchar_t xor xor_eq
"""
_CUDA = """
blockIdx blockDim threadIdx gridDim warpSize dim3 half half2 float16 bfloat16 complex64 complex128 cudaError_t
float8_e4m3fn float8_e5m2
char1 char2 char3 char4 uchar1 uchar2 uchar3 uchar4 short1 short2 short3 short4 ushort1 ushort2 ushort3 ushort4
int1 int2 int3 int4 uint1 uint2 uint3 uint4 long1 long2 long3 long4 ulong1 ulong2 ulong3 ulong4
longlong1 longlong2 longlong3 longlong4 ulonglong1 ulonglong2 ulonglong3 ulonglong4
float1 float2 float3 float4 double1 double2 double3 double4
make_char2 make_char3 make_char4 make_uchar2 make_uchar3 make_uchar4 make_short2 make_short3 make_short4
make_ushort2 make_ushort3 make_ushort4 make_int2 make_int3 make_int4 make_uint2 make_uint3 make_uint4
make_longlong2 make_longlong3 make_longlong4 make_ulonglong2 make_ulonglong3 make_ulonglong4
make_float2 make_float3 make_float4 make_double2 make_double3 make_double4
"""
_MACROS_AND_TYPES = """
NULL INFINITY NAN EOF assert errno main offsetof size_t ssize_t ptrdiff_t intptr_t uintptr_t wint_t
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
INT32_MAX INT32_MIN INT64_MAX INT64_MIN UINT32_MAX UINT64_MAX FLT_MAX DBL_MAX stdin stdout stderr
"""

_HEADERS = """
abort abs aligned_alloc atexit atof atoi atol atoll at_quick_exit bsearch calloc clock div drem exit free gamma getenv
j0 j1 jn labs ldiv lgamma llabs lldiv malloc mblen mbstowcs mbtowc qsort quick_exit rand random realloc scalb select
signgam significand srand srandom strtod strtof strtol strtold strtoll strtoul strtoull system wcstombs wctomb y0 y1 yn
"""

_KEYWORDS: Final = frozenset((_C11 + _CXX).split())
RESERVED: Final[frozenset[str]] = _KEYWORDS | frozenset((_CUDA + _MACROS_AND_TYPES).split())
"""Keywords of C11 and C++, and names of CUDA or of standard"""

_FUNCTIONS_OF_HEADERS: Final = frozenset(_HEADERS.split())
"""Declarations of ``stdlib.h`` and ``math.h`` besides the functions of expressions: variables may hide them."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


KERNEL_NAME: Final = "kernel name"
RULE_NAME: Final = "substitution rule"
"""The kind of names that stand beside the functions of headers."""


_VARIABLES: Final = frozenset({"name", "argument name"})
"""Kinds of names that may be those of functions: what is called is a function, what is subscripted an array."""


def is_identifier(name: str) -> bool:
    """Return whether *name* is spelt as an identifier: ASCII letters, digits, ``_``; not ``__`` first."""
    return _IDENTIFIER.fullmatch(name) is not None and not name.startswith("__")


def tagged_name(spelling: str) -> str:
    """Return the name of the rule that a tagged name stands for, ``a_left`` for ``a$left``; other names as they are."""
    return spelling.replace("$", "_")


def check_identifier(name: str, kind: str = "name") -> Diagnostic | None:
    """Return the error in *name* as a *kind* (such as :data:`KERNEL_NAME`), or None.

    The codes are ``bad-identifier`` (spelling) and ``reserved-name`` (a keyword of C, C++ or CUDA, a name that their
    headers define, or a function that expressions can call; arrays and scalars may be called as one).
    """
    if not is_identifier(name):
        if _IDENTIFIER.fullmatch(name):
            hint = "names that begin with two underscores belong to the C compiler: drop one"
        else:
            hint = "use ASCII letters, digits and '_', and no digit first"
        return Diagnostic("bad-identifier", f"'{name}' is not a valid {kind}", hints=(hint,))
    if name in RESERVED:
        what = "a keyword of C or C++" if name in _KEYWORDS else "a name that C or CUDA defines"
    elif kind == KERNEL_NAME and (name in _FUNCTIONS_OF_HEADERS or (name[:-1] in FUNCTIONS and name[-1] in "fl")):
        what = "a function that C or CUDA declares"
    elif kind not in _VARIABLES and name in FUNCTIONS and FUNCTIONS[name].reserved:
        what = "a function that expressions can call"
    else:
        return None
    return Diagnostic("reserved-name", f"'{name}' is {what}", hints=(f"choose another name, such as '{name}_'",))


_MOST_AXES: Final = 64


def too_many_axes(name: str, count: int) -> Diagnostic | None:
    """Return ``too-many-axes`` if no array can have *count* axes, otherwise None."""
    if count <= _MOST_AXES:
        return None
    message = f"array '{name}' would have {count} axes"
    return Diagnostic("too-many-axes", message, (f"NumPy's arrays have at most {_MOST_AXES}",), ("join some of them",))
