"""Spellings of functions that C and CUDA share: the C library's names, with ``f`` appended for float."""

from __future__ import annotations

from typing import Final

__all__ = ["math_functions"]

_NAMES: Final = (
    *("sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "fabs", "floor", "ceil", "erf"),
    *("atan2", "pow", "fmin", "fmax", "hypot", "copysign", "fma"),
)


def math_functions() -> dict[tuple[str, str], str]:
    """Return the spelling of each function by its name and the NumPy name of its argument type."""
    found: dict[tuple[str, str], str] = {}
    for dtype, suffix in (("float32", "f"), ("float64", "")):
        for name in _NAMES:
            found[name, dtype] = name + suffix
        found["abs", dtype] = f"fabs{suffix}"
        found["isnan", dtype] = "isnan"
        found["isinf", dtype] = "isinf"
    for dtype in ("int8", "int16", "int32"):
        found["abs", dtype] = "abs"
    found["abs", "int64"] = "llabs"
    return found
