"""Types that NVRTC lacks without headers: floats of 8 and 16 bits, and complex numbers, as small structures.

A program includes only the definitions that it uses.  ``cuda_fp16.h`` and ``cuda_bf16.h`` would have to be found on the
machine and read in every compilation, but only four conversions are needed: arithmetic is in float.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from polyloop.codegen.device.entries import Word
from polyloop.codegen.language import Definition
from polyloop.target.float8 import Words, float8_definitions

__all__ = ["complex_definitions", "complex_operators", "cuda_definitions", "standard_halves"]

_FUNCTION: Final = "static __device__ __forceinline__"
_PARTS: Final = {"complex64": ("float", "float32", "f"), "complex128": ("double", "float64", "")}
_LONG_ARGUMENT: Final = {"f": "9.0f", "": "20.0"}
"""Beyond it tanh is 1 within rounding."""


_WORDS: Final = Words(
    _FUNCTION, ("unsigned char", "unsigned int", "unsigned long long"), "struct {name} {{ {byte} bits; }};",
    "__float_as_uint({0})", "__uint_as_float({0})", "(unsigned long long)__double_as_longlong({0})",
    "__longlong_as_double((long long)({0}))", hardware="__CUDA_ARCH__ >= 890",
)  # fmt: skip


def cuda_definitions() -> Iterator[tuple[str, Definition]]:
    """Yield the definition of each type, conversion and complex function, by name."""
    yield from _halves()
    yield "fast exp2 float32", _exp2()
    yield "fast erf float32", _erf()
    yield from float8_definitions(_WORDS)
    yield from complex_definitions("__align__({bytes})")


def standard_halves() -> tuple[dict[str, str], dict[tuple[str, str], str], dict[str, Definition], dict[str, Word]]:
    """Return the floats of 16 bits of ``cuda_fp16.h`` and ``cuda_bf16.h``: types, functions, definitions and words.

    CUDA Math API, "Half Precision Conversion and Data Movement" and "Bfloat16 Precision Conversion and Data Movement".
    """
    types, functions, words = dict[str, str](), dict[tuple[str, str], str](), dict[str, Word]()
    definitions = dict[str, Definition]()
    for dtype, header, ctype, name in (("float16", "cuda_fp16.h", "__half", "half"),
                                       ("bfloat16", "cuda_bf16.h", "__nv_bfloat16", "bfloat16")):
        types[dtype], definitions[ctype] = ctype, Definition(f"#include <{header}>")
        functions["widen", dtype], functions["narrow", dtype] = f"__{name}2float", f"__float2{name}_rn"
        functions["bits", dtype] = f"__{name}_as_ushort"
        words[dtype] = Word("unsigned short", f"__{name}_as_ushort({{0}})", f"__ushort_as_{name}({{0}})")
    return types, functions | {("narrow_double", "float16"): "__double2half"}, definitions, words


def complex_definitions(aligned: str) -> Iterator[tuple[str, Definition]]:
    """Yield the definitions of complex numbers; *aligned* is the alignment specifier, with a field ``{bytes}``."""
    for dtype in _PARTS:
        yield from _complex(dtype, aligned)


def _halves() -> Iterator[tuple[str, Definition]]:
    for dtype in ("float16", "bfloat16"):
        yield dtype, Definition(f"struct {dtype} {{ unsigned short bits; }};")
    yield "widen float16", _conversion("float", "to_float", "float16", "cvt.f32.f16", "f", "h")
    yield "narrow float16", _conversion("float16", "to_float16", "float", "cvt.rn.f16.f32", "h", "f")
    yield "narrow_double float16", _conversion("float16", "to_float16", "double", "cvt.rn.f16.f64", "h", "d")
    yield "narrow bfloat16", _conversion("bfloat16", "to_bfloat16", "float", "cvt.rn.bf16.f32", "h", "f")
    yield (
        "widen bfloat16",
        Definition(f"{_FUNCTION} float to_float(bfloat16 a) {{ return __int_as_float(a.bits << 16); }}", ("bfloat16",)),
    )


def _exp2() -> Definition:
    """Return the function around the instruction of which other exponentials are made: PTX ISA, "ex2"."""
    text = (
        f"{_FUNCTION} float fast_exp2(float a)\n"
        "{\n"
        "    float b;\n"
        '    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(b) : "f"(a));\n'
        "    return b;\n"
        "}"
    )
    return Definition(text)


def _erf() -> Definition:
    """Return the error function without branches, wrong by 1.5e-7 at most but for the rounding of its operations.

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26; PTX ISA, "rcp".
    """
    factors = ("1.061405429f", "-1.453152027f", "1.421413741f", "-0.284496736f", "0.254829592f")
    total = factors[0]
    for factor in factors[1:]:
        total = f"fmaf({total}, t, {factor})"
    text = (
        f"{_FUNCTION} float fast_erf(float a)\n"
        "{\n"
        "    const float x = fabsf(a), b = fmaf(0.3275911f, x, 1.0f);\n"
        "    float t;\n"
        '    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(b));\n'
        f"    const float s = {total};\n"
        "    return copysignf(fmaf(-t * s, fast_exp2(-1.4426950408889634f * x * x), 1.0f), a);\n"
        "}"
    )
    return Definition(text, ("fast exp2 float32",))


def _conversion(result: str, name: str, argument: str, instruction: str, out: str, given: str) -> Definition:
    """Return a function around one PTX instruction: PTX ISA, "cvt"."""
    target = "b.bits" if out == "h" else "b"
    source = "a.bits" if given == "h" else "a"
    text = (
        f"{_FUNCTION} {result} {name}({argument} a)\n"
        "{\n"
        f"    {result} b;\n"
        f'    asm("{instruction} %0, %1;" : "={out}"({target}) : "{given}"({source}));\n'
        "    return b;\n"
        "}"
    )
    return Definition(text, (result if out == "h" else argument,))


def complex_operators() -> dict[tuple[str, str, str], str]:
    """Return the name of the definition of each operator, by symbol and types; a unary one has no left type."""
    found: dict[tuple[str, str, str], str] = {}
    for dtype, (_, real, _) in _PARTS.items():
        pairs = ((dtype, dtype), (dtype, real), (real, dtype))
        found |= {(symbol, *pair): f"{pair[0]} {symbol} {pair[1]}" for symbol in "+-*/" for pair in pairs}
        found |= {(symbol, dtype, dtype): f"{dtype} {symbol} {dtype}" for symbol in ("==", "!=", "+=", "*=")}
        found["-", "", dtype] = f"- {dtype}"
    return found


def _complex(dtype: str, aligned: str) -> Iterator[tuple[str, Definition]]:
    real, name, f = _PARTS[dtype]
    specifier = aligned.format(bytes=8 if f else 16)
    yield dtype, Definition(f"struct {specifier} {dtype} {{ {real} re, im; }};")

    def operator(symbol: str, left: str, right: str, value: str) -> tuple[str, Definition]:
        types = {dtype: dtype, name: real}
        head = f"{_FUNCTION} {dtype} operator{symbol}({types[left]} a, {types[right]} b)"
        return f"{left} {symbol} {right}", Definition(f"{head} {{ return {value}; }}", (dtype,))

    yield f"- {dtype}", Definition(f"{_FUNCTION} {dtype} operator-({dtype} a) {{ return {{-a.re, -a.im}}; }}", (dtype,))
    for symbol in "+-":
        yield operator(symbol, dtype, dtype, f"{{a.re {symbol} b.re, a.im {symbol} b.im}}")
        yield operator(symbol, dtype, name, f"{{a.re {symbol} b, a.im}}")
    yield operator("+", name, dtype, "{a + b.re, b.im}")
    yield operator("-", name, dtype, "{a - b.re, -b.im}")
    yield operator("*", dtype, dtype, "{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}")
    yield operator("*", dtype, name, "{a.re * b, a.im * b}")
    yield operator("*", name, dtype, "{a * b.re, a * b.im}")
    yield operator("/", dtype, name, "{a.re / b, a.im / b}")
    division = f"{dtype} / {dtype}"
    yield division, Definition(_division(dtype, real, f), (dtype,))
    yield (
        f"{name} / {dtype}",
        Definition(
            f"{_FUNCTION} {dtype} operator/({real} a, {dtype} b) {{ return {dtype}{{a, 0}} / b; }}", (division,)
        ),
    )
    for symbol, join in (("==", "&&"), ("!=", "||")):
        value = f"a.re {symbol} b.re {join} a.im {symbol} b.im"
        head = f"{_FUNCTION} bool operator{symbol}({dtype} a, {dtype} b)"
        yield f"{dtype} {symbol} {dtype}", Definition(f"{head} {{ return {value}; }}", (dtype,))
    for symbol in "+*":
        head = f"{_FUNCTION} {dtype} &operator{symbol}=({dtype} &a, {dtype} b)"
        text = f"{head} {{ return a = a {symbol} b; }}"
        yield f"{dtype} {symbol}= {dtype}", Definition(text, (f"{dtype} {symbol} {dtype}",))
    yield from _functions(dtype, real, f)


def _division(dtype: str, real: str, f: str) -> str:
    """Return division that does not overflow on the way: R. L. Smith, Algorithm 116, CACM 5 (1962)."""
    return (
        f"{_FUNCTION} {dtype} operator/({dtype} a, {dtype} b)\n"
        "{\n"
        f"    if (fabs{f}(b.re) >= fabs{f}(b.im)) {{\n"
        f"        {real} r = b.re == 0 ? b.im : b.im / b.re, d = b.re + b.im * r;\n"
        "        return {(a.re + a.im * r) / d, (a.im - a.re * r) / d};\n"
        "    }\n"
        f"    {real} r = b.re / b.im, d = b.re * r + b.im;\n"
        "    return {(a.re * r + a.im) / d, (a.im * r - a.re) / d};\n"
        "}"
    )


def _functions(dtype: str, real: str, f: str) -> Iterator[tuple[str, Definition]]:
    other = "complex128" if f else "complex64"
    yield (
        f"convert {dtype}",
        Definition(
            f"{_FUNCTION} {dtype} to_{dtype}({other} a) {{ return {{({real})a.re, ({real})a.im}}; }}", (dtype, other)
        ),
    )

    def function(name: str, body: str, needs: tuple[str, ...] = (), result: str = dtype, more: str = "") -> (
        tuple[str, Definition]
    ):  # fmt: skip
        head = f"{_FUNCTION} {result} {name}({dtype} a{more})"
        own = tuple(f"{need} {dtype}" for need in needs)
        if "\n" not in body:
            return f"{name} {dtype}", Definition(f"{head} {{ {body} }}", (dtype, *own))
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        return f"{name} {dtype}", Definition(f"{head}\n{{\n{lines}\n}}", (dtype, *own))

    yield function("abs", f"return hypot{f}(a.re, a.im);", result=real)
    yield function("arg", f"return atan2{f}(a.im, a.re);", result=real)
    yield function("conj", "return {a.re, -a.im};")
    yield function(
        "exp",
        f"{real} r = exp{f}(a.re);\nreturn {{r * cos{f}(a.im), a.im == 0 ? a.im : r * sin{f}(a.im)}};",
    )
    yield function(
        "log",
        f"{real} x = fmax{f}(fabs{f}(a.re), fabs{f}(a.im)), y = fmin{f}(fabs{f}(a.re), fabs{f}(a.im));\n"
        f"{real} r = hypot{f}(x, y);\n"
        f"// near the unit circle the logarithm of the rounded modulus would say little\n"
        f"{real} l = r > 0.5{f} && r < 2 ? 0.5{f} * log1p{f}((x - 1) * (x + 1) + y * y) : log{f}(r);\n"
        f"return {{l, atan2{f}(a.im, a.re)}};",
    )
    yield function(
        "sqrt",
        f"if (a.re == 0 && a.im == 0)\n"
        f"    return {{0, a.im}};\n"
        f"{real} t = sqrt{f}(0.5{f} * fabs{f}(a.re) + 0.5{f} * hypot{f}(a.re, a.im)), s = 0.5{f} * a.im / t;\n"
        f"if (a.re >= 0)\n"
        f"    return {{t, s}};\n"
        f"return {{fabs{f}(s), copysign{f}(t, a.im)}};",
    )
    yield function("sin", f"return {{sin{f}(a.re) * cosh{f}(a.im), cos{f}(a.re) * sinh{f}(a.im)}};")
    yield function("cos", f"return {{cos{f}(a.re) * cosh{f}(a.im), -sin{f}(a.re) * sinh{f}(a.im)}};")
    yield function("sinh", f"return {{sinh{f}(a.re) * cos{f}(a.im), cosh{f}(a.re) * sin{f}(a.im)}};")
    yield function("cosh", f"return {{cosh{f}(a.re) * cos{f}(a.im), sinh{f}(a.re) * sin{f}(a.im)}};")
    yield function(
        "tanh",
        f"if (fabs{f}(a.re) > {_LONG_ARGUMENT[f]})\n"
        f"    return {{copysign{f}(1.0{f}, a.re), 4 * sin{f}(a.im) * cos{f}(a.im) * exp{f}(-2 * fabs{f}(a.re))}};\n"
        f"{real} t = tan{f}(a.im), s = sinh{f}(a.re), b = 1 + t * t, r = sqrt{f}(1 + s * s), d = 1 + b * s * s;\n"
        f"return {{b * r * s / d, t / d}};",
    )
    yield function("tan", f"{dtype} t = tanh({dtype}{{-a.im, a.re}});\nreturn {{t.im, -t.re}};", ("tanh",))
    yield function(
        "pow",
        f"if (a.re == 0 && a.im == 0)\n"
        f"    return {{b.re == 0 && b.im == 0 ? 1.0{f} : 0.0{f}, 0}};\n"
        f"{dtype} l = log(a);\n"
        f"return exp({dtype}{{b.re * l.re - b.im * l.im, b.re * l.im + b.im * l.re}});",
        ("log", "exp"),
        more=f", {dtype} b",
    )
