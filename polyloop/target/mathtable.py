"""Spellings of functions, by name and NumPy name of the argument type, for C, CUDA and OpenCL C.

A spelling is a name, or a format with a field for each argument.  The functions of the C library have ``f`` appended
for float; those of complex numbers begin with ``c`` in C and are defined in ``target/cudacomplex.py`` for CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from polyloop.codegen.language import Definition
from polyloop.target.float8 import Words, float8_definitions, float8_functions

__all__ = [
    "CUDA_FAST_FUNCTIONS",
    "CUDA_FUNCTIONS",
    "C_FUNCTIONS",
    "OPENCL_FAST_FUNCTIONS",
    "OPENCL_FUNCTIONS",
    "bit_definitions",
    "c_definitions",
]

_SHARED: Final = """
sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
fabs floor ceil trunc round rint nearbyint erf erfc tgamma lgamma
atan2 pow fmin fmax fmod remainder fdim hypot copysign nextafter fma ldexp
"""
_COMPLEX: Final = "sqrt exp log sin cos tan sinh cosh tanh pow abs real imag conj arg"
_SIGNED: Final = ("int8", "int16", "int32", "int64")
_INTEGERS: Final = (*_SIGNED, "uint8", "uint16", "uint32", "uint64")

_Table = dict[tuple[str, str], str]


def _width(dtype: str) -> int:
    return int(dtype.lstrip("uint"))


def _shared_functions() -> _Table:
    found: _Table = {}
    for dtype, suffix in (("float32", "f"), ("float64", "")):
        for name in _SHARED.split():
            found[name, dtype] = name + suffix
        found["abs", dtype] = f"fabs{suffix}"
        found["arg", dtype] = f"atan2{suffix}(0.0{suffix}, {{0}})"
        found["isnan", dtype] = "isnan"
        found["isfinite", dtype] = "isfinite"
    for dtype in _SIGNED:
        found["abs", dtype] = "llabs" if dtype == "int64" else "abs"
    for dtype in _INTEGERS:
        for name in ("clz", "ctz"):
            found[name, dtype] = f"{name}_{dtype}"
    return found


def _c_functions() -> _Table:
    found = _shared_functions()
    for dtype, suffix in (("float32", "f"), ("float64", "")):
        found["rsqrt", dtype] = f"1.0{suffix} / sqrt{suffix}({{0}})"
        found["exp10", dtype] = f"pow{suffix}(10.0{suffix}, {{0}})"
        for name in ("isinf", "signbit"):
            found[name, dtype] = f"{name}({{0}}) != 0"
        for name in ("sinpi", "cospi"):
            found[name, dtype] = f"{name}_{dtype}"
    for dtype, suffix, part in (("complex64", "f", "F"), ("complex128", "", "")):
        for name in _COMPLEX.split():
            found[name, dtype] = f"c{name}{suffix}".replace("cconj", "conj")
        found["complex", dtype] = f"CMPLX{part}({{0}}, {{1}})"
    for dtype in _INTEGERS:
        long = "ll" if _width(dtype) == 64 else ""
        argument = f"(uint{_width(dtype)}_t)({{0}})" if _width(dtype) < 32 else "{0}"
        found["popcount", dtype] = f"__builtin_popcount{long}({argument})"
    return {
        **found,
        ("widen", "float16"): "(float)",
        ("narrow", "float16"): "(_Float16)",
        ("narrow_double", "float16"): "(_Float16)",
        ("widen", "bfloat16"): "to_float",
        ("narrow", "bfloat16"): "to_bfloat16",
        **float8_functions(),
    }


def _cuda_functions() -> _Table:
    found = _shared_functions()
    for dtype, suffix in (("float32", "f"), ("float64", "")):
        for name in ("rsqrt", "exp10", "sinpi", "cospi"):
            found[name, dtype] = name + suffix
        for name in ("isinf", "signbit"):
            found[name, dtype] = name
    for dtype in ("complex64", "complex128"):
        for name in _COMPLEX.split():
            found[name, dtype] = name  # overloaded
        found["real", dtype] = "{0}.re"
        found["imag", dtype] = "{0}.im"
        found["complex", dtype] = f"{dtype}{{{{{{0}}, {{1}}}}}}"
        found["convert", dtype] = f"to_{dtype}"
    for dtype in _INTEGERS:
        long = "ll" if _width(dtype) == 64 else ""
        narrow = {8: "(unsigned char)({0})", 16: "(unsigned short)({0})"}.get(_width(dtype), "{0}")
        found["popcount", dtype] = f"__popc{long}({narrow})"
    for dtype in ("float16", "bfloat16"):
        found["widen", dtype] = "to_float"
        found["narrow", dtype] = f"to_{dtype}"
    return {**found, ("narrow_double", "float16"): "to_float16", **float8_functions()}


def _opencl_functions() -> _Table:
    found: _Table = {}
    for dtype, suffix in (("float32", "f"), ("float64", "")):
        found |= {(name, dtype): name for name in _SHARED.split()}  # overloaded
        found |= {(name, dtype): name for name in ("rsqrt", "exp10", "sinpi", "cospi", "isnan", "isfinite")}
        found["abs", dtype] = "fabs"
        found["nearbyint", dtype] = "rint"
        found["arg", dtype] = f"atan2(0.0{suffix}, {{0}})"
        for name in ("isinf", "signbit"):
            found[name, dtype] = f"{name}({{0}}) != 0"
    for dtype in _SIGNED:  # its result is unsigned, as wide as the argument
        wide = "long" if dtype == "int64" else "int"
        found["abs", dtype] = f"({wide})abs(({wide})({{0}}))"
    for dtype in _INTEGERS:
        own = {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}[_width(dtype)]
        found["clz", dtype] = f"(int)clz(({own})({{0}}))"
        found["ctz", dtype] = f"ctz_{dtype}"
        found["popcount", dtype] = f"(int)popcount(({own})({{0}}))"
    for dtype, name in (("float16", "half"), ("bfloat16", "bfloat16")):
        found["widen", dtype] = f"{name}_to_float"
        found["narrow", dtype] = f"to_{name}"
    return {**found, ("narrow_double", "float16"): "double_to_half", **float8_functions()}


OPENCL_FUNCTIONS: Final[Mapping[tuple[str, str], str]] = _opencl_functions()
"""The OpenCL C Specification, "Math Functions" and "Integer Functions"."""
OPENCL_FAST_FUNCTIONS: Final[Mapping[tuple[str, str], str]] = {
    (name, "float32"): f"native_{name}"
    for name in ("exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "rsqrt", "sqrt", "divide")
}
"""Functions whose accuracy is up to the device: the same specification, "Math Functions"."""
C_FUNCTIONS: Final[Mapping[tuple[str, str], str]] = _c_functions()
CUDA_FUNCTIONS: Final[Mapping[tuple[str, str], str]] = _cuda_functions()
CUDA_FAST_FUNCTIONS: Final[Mapping[tuple[str, str], str]] = {
    (name, "float32"): spelling
    for name, spelling in {
        "exp": "__expf",
        "exp2": "fast_exp2",
        "erf": "fast_erf",
        "exp10": "__exp10f",
        "log": "__logf",
        "log2": "__log2f",
        "log10": "__log10f",
        "sin": "__sinf",
        "cos": "__cosf",
        "tan": "__tanf",
        "pow": "__powf",
        "rsqrt": "rsqrtf",
        "divide": "__fdividef",
    }.items()
}
"""Approximations in hardware: CUDA Math API, "Single Precision Intrinsics"; that of exp2 is a PTX instruction.

That of erf is made of two, and wrong by 1e-6 at most (``target/cudatypes.py``).
"""


def bit_definitions(signature: str, types: Mapping[str, str], clz: str, ctz: str) -> Iterator[tuple[str, Definition]]:
    """Yield ``clz`` and ``ctz`` of each integer type, which are its width for 0.

    Parameters
    ----------
    signature
        Prefix of the result type.
    types
        C type of each NumPy type.
    clz, ctz
        Formats of the built-in functions of a nonzero unsigned number of 32 or 64 bits, with fields ``{long}``
        (``ll`` for 64 bits) and ``{x}``.
    """
    for dtype in _INTEGERS:
        width = _width(dtype)
        own, wide = types[f"uint{width}"], max(width, 32)
        long = "ll" if width == 64 else ""
        argument = "a" if dtype.startswith("u") or width >= 32 else f"({own})a"
        less = f" - {wide - width}" if width < wide else ""
        for name, call in (
            ("clz", clz.format(long=long, x=argument) + less),
            ("ctz", ctz.format(long=long, x=argument)),
        ):
            text = f"{signature} int {name}_{dtype}({types[dtype]} a) {{ return a == 0 ? {width} : {call}; }}"
            yield f"{name} {dtype}", Definition(text)


_WORDS: Final = Words(
    "static inline", ("uint8_t", "uint32_t", "uint64_t"),
    "typedef struct {{ {byte} bits; }} {name};  // a floating-point number of 8 bits",
    "float_bits({0})", "bits_float({0})", "double_bits({0})", "bits_double({0})", needs=("float bits",),
)  # fmt: skip


def _bits_in_c() -> Iterator[tuple[str, Definition]]:
    """Yield the conversions between numbers and their bits."""
    lines = []
    for real, word in (("float", "uint32_t"), ("double", "uint64_t")):
        union = f"union {{ {real} value; {word} bits; }} whole"
        lines.append(f"static inline {word} {real}_bits({real} a) {{ {union} = {{.value = a}}; return whole.bits; }}")
        lines.append(f"static inline {real} bits_{real}({word} a) {{ {union} = {{.bits = a}}; return whole.value; }}")
    yield "float bits", Definition("\n".join(lines))


def c_definitions() -> Iterator[tuple[str, Definition]]:
    """Yield the types and functions that C lacks: bfloat16, floats of 8 bits, functions of pi times a number."""
    yield "bfloat16", Definition("typedef struct { uint16_t bits; } bfloat16;  // the upper half of a float")
    yield (
        "widen bfloat16",
        Definition(
            "static inline float to_float(bfloat16 a)\n"
            "{\n"
            "    union { uint32_t bits; float value; } whole = {(uint32_t)a.bits << 16};\n"
            "    return whole.value;\n"
            "}",
            ("bfloat16",),
        ),
    )
    yield (
        "narrow bfloat16",
        Definition(
            "static inline bfloat16 to_bfloat16(float a)\n"
            "{\n"
            "    union { float value; uint32_t bits; } whole = {a};\n"
            "    uint32_t rounded = whole.bits + 0x7fff + (whole.bits >> 16 & 1);  // halves to even\n"
            "    return (bfloat16){a != a ? 0x7fc0 : rounded >> 16};\n"
            "}",
            ("bfloat16",),
        ),
    )
    yield from _bits_in_c()
    yield from float8_definitions(_WORDS)
    for dtype in ("complex64", "complex128"):
        ctype = {"complex64": "float _Complex", "complex128": "double _Complex"}[dtype]
        yield ctype, Definition("", ("complex.h",))
    parts = "".join(
        f"\n#define CMPLX{part}(x, y) __builtin_complex(({real})(x), ({real})(y))"
        for real, part in (("double", ""), ("float", "F"))
    )
    guarded = f"#ifndef CMPLX  // glibc defines it for GCC only{parts}\n#endif"
    yield "complex.h", Definition(f"#include <complex.h>\n#undef I\n{guarded}")
    for real, dtype, f in (("float", "float32", "f"), ("double", "float64", "")):
        for name, odd in (("sinpi", True), ("cospi", False)):
            yield f"{name} {dtype}", Definition(_turned(name, real, dtype, f, odd))


def _turned(name: str, real: str, dtype: str, f: str, odd: bool) -> str:
    """Return ``sin(pi*a)`` or ``cos(pi*a)``, with the argument reduced exactly to a quarter of a turn."""
    cases = (
        [f"sin{f}(r)", f"cos{f}(r)", f"-sin{f}(r)", f"-cos{f}(r)"]
        if odd
        else [f"cos{f}(r)", f"-sin{f}(r)", f"-cos{f}(r)", f"sin{f}(r)"]
    )
    zero = f"    if (a == trunc{f}(a))\n        return copysign{f}(0.0{f}, a);\n" if odd else (
        f"    if (fabs{f}(a - trunc{f}(a)) == 0.5{f})\n        return 0.0{f};\n"
    )  # fmt: skip
    pi = "3.14159265f" if f else "3.14159265358979324"
    return (
        f"static inline {real} {name}_{dtype}({real} a)\n"
        "{\n"
        f"    if (!isfinite(a))\n        return NAN;\n"
        f"{zero}"
        f"    {real} turn = fmod{f}(a, 2.0{f}), quarter = rint{f}(2.0{f} * turn);\n"
        f"    {real} r = {pi} * (turn - 0.5{f} * quarter);\n"
        "    switch ((int)quarter & 3) {\n"
        f"    case 0: return {cases[0]};\n"
        f"    case 1: return {cases[1]};\n"
        f"    case 2: return {cases[2]};\n"
        f"    default: return {cases[3]};\n"
        "    }\n"
        "}"
    )
