"""Floating-point numbers of 8 bits in C, CUDA C and OpenCL C: a structure with their bits, and conversions of bits.

Conversions round to the nearest number, of two to the even one, and beyond the greatest one to it: they are those of
``__nv_cvt_float_to_fp8`` and ``__nv_cvt_double_to_fp8`` with ``__NV_SATFINITE``, bit by bit; NaN is always ``0x7f``.
Source: "FP8 Formats for Deep Learning", https://arxiv.org/abs/2209.05433; CUDA Math API, "FP8 Conversion and Data
Movement"; PTX ISA, "cvt".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from polyloop.codegen.language import Definition

__all__ = ["Words", "float8_definitions", "float8_functions"]


@dataclass(frozen=True)
class Words:
    """Words of a language of the C family.

    Attributes
    ----------
    helper
        Qualifiers of a function.
    integers
        Unsigned integers of 8, 32 and 64 bits.
    struct
        Definition of a structure, with the fields ``{name}`` and ``{byte}``.
    bits, value, long_bits, long_value
        Formats of the bits of a float and the float of some bits, and the same of a double.
    needs
        Names of the definitions that these ask for.
    suffix
        Suffix of a constant of 64 bits.
    hardware
        Condition of the preprocessor under which PTX has the conversions; empty for never.
    """

    helper: str
    integers: tuple[str, str, str]
    struct: str
    bits: str
    value: str
    long_bits: str
    long_value: str
    needs: tuple[str, ...] = ()
    suffix: str = "ull"
    hardware: str = ""


@dataclass(frozen=True)
class _Format:
    """A format of 8 bits: the bits of its mantissa, the least exponent, the greatest number and what is no number."""

    name: str
    short: str
    mantissa: int
    least: int
    greatest: int
    special: int


_FORMATS: Final = (
    _Format("float8_e4m3fn", "e4m3", 3, -6, 0x7E, 0x7F),
    _Format("float8_e5m2", "e5m2", 2, -14, 0x7B, 0x7C),
)
_FLOAT: Final = (23, 127)
_DOUBLE: Final = (52, 1023)
"""Bits of the mantissa, and bias of the exponent."""


def float8_functions() -> dict[tuple[str, str], str]:
    """Return the names of the conversions, which are the same in all languages."""
    found: dict[tuple[str, str], str] = {}
    for form in _FORMATS:
        found["widen", form.name] = f"{form.name}_to_float"
        found["narrow", form.name] = f"to_{form.name}"
        found["narrow_double", form.name] = f"double_to_{form.name}"
    return found


def float8_definitions(words: Words) -> Iterator[tuple[str, Definition]]:
    """Yield the types and conversions, by name."""
    for form in _FORMATS:
        yield form.name, Definition(words.struct.format(name=form.name, byte=words.integers[0]))
        needs = (form.name, *words.needs)
        yield f"widen {form.name}", Definition(_widen(form, words), needs)
        yield f"narrow {form.name}", Definition(_narrow(form, words, double=False), needs)
        yield f"narrow_double {form.name}", Definition(_narrow(form, words, double=True), needs)


def _widen(form: _Format, words: Words) -> str:
    mantissa, bias = _FLOAT
    shift = mantissa - form.mantissa
    offset = (bias + form.least - 1) << mantissa
    unit = f"{2.0 ** (form.least - form.mantissa)!r}f"
    normal = words.value.format(f"({words.integers[1]})(size << {shift}) + {offset:#x}u")
    special = words.value.format(f"0x7f800000u | size << {shift}")
    software = [
        f"const {words.integers[1]} size = a.bits & 0x7fu;",
        f"const float x = size < {1 << form.mantissa}u ? (float)size * {unit}",
        f"    : size < {form.special:#x}u ? {normal} : {special};",
        "return a.bits >> 7 ? -x : x;",
    ]
    hardware = [
        "float x;",
        r'asm("{\n.reg .b16 low, high;\n.reg .b32 pair;\n"',
        rf'    "cvt.rn.f16x2.{form.short}x2 pair, %1;\nmov.b32 {{low, high}}, pair;\ncvt.f32.f16 %0, low;\n}}"',
        '    : "=f"(x) : "h"((unsigned short)a.bits));',
        "return x;",
    ]
    return _function(words, f"float {form.name}_to_float({form.name} a)", software, hardware)


def _narrow(form: _Format, words: Words, *, double: bool) -> str:
    """Return the conversion: below the least normal number an addition rounds to multiples of the least one."""
    mantissa, bias = _DOUBLE if double else _FLOAT
    byte, *wider = words.integers
    word, end = (wider[1], words.suffix) if double else (wider[0], "u")
    bits, value = (words.long_bits, words.long_value) if double else (words.bits, words.value)
    kind, f = ("double", "") if double else ("float", "f")
    shift = mantissa - form.mantissa
    power = form.least - form.mantissa + mantissa  # the number whose last place is the least number
    normal = f"{(bias + form.least) << mantissa:#x}{end}"
    total = f"{value.format('size')} + {2.0**power!r}{f}"
    small = f"{bits.format(total)} - {(bias + power) << mantissa:#x}{end}"
    half = f"{(1 << (shift - 1)) - 1:#x}{end}"
    offset = f"{(bias + form.least - 1) << form.mantissa:#x}{end}"
    infinity = f"{(2 * bias + 1) << mantissa:#x}{end}"
    sign = mantissa + (11 if double else 8) - 7
    software = [
        f"const {word} bits = {bits.format('a')}, size = bits << 1 >> 1;",
        f"{word} near = size < {normal} ? {small}",
        f"    : ((size + {half} + (size >> {shift} & 1)) >> {shift}) - {offset};",
        f"near = near < {form.greatest:#x} ? near : {form.greatest:#x};  // beyond the greatest number: to it",
        f"{form.name} r = {{({byte})(size > {infinity} ? 0x7f : near | (bits >> {sign} & 0x80))}};",
        "return r;",
    ]
    hardware = [
        "unsigned short pair;",
        f'asm("cvt.rn.satfinite.{form.short}x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(a));',
        f"{form.name} r = {{({byte})(a != a ? 0x7f : pair)}};",
        "return r;",
    ]
    name = f"double_to_{form.name}" if double else f"to_{form.name}"
    return _function(words, f"{form.name} {name}({kind} a)", software, [] if double else hardware)


def _function(words: Words, head: str, software: list[str], hardware: list[str]) -> str:
    """Return a function, by instructions of the device where it has them."""
    def body(lines: list[str]) -> list[str]:
        return [f"    {line}" for line in lines]

    lines = body(software)
    if words.hardware and hardware:
        lines = [f"#if {words.hardware}", *body(hardware), "#else", *lines, "#endif"]
    return "\n".join([f"{words.helper} {head}", "{", *lines, "}"])
