"""Helper functions of generated code: division and remainder as in Python, extremes, powers, shifts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from polyloop.expr.dtypes import is_floating, is_signed

__all__ = ["FLOAT_FUNCTIONS", "OPERATIONS", "helper_source"]

FLOAT_FUNCTIONS: Final = ("fmod", "floor", "copysign")
"""Functions that helpers on floating-point numbers call."""

_SIGNED: Final = {
    "floordiv": "{t} q = a / b; return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;",
    "floormod": "{t} r = a % b; return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;",
    "divide": (
        "if (b == -1)",
        "    return ({t})(0 - ({u})a);",
        "{t} q = a / b;",
        "return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;",
    ),
    "modulo": (
        "if (b == -1)",
        "    return 0;",
        "{t} r = a % b;",
        "return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;",
    ),
    "abs": "return a < 0 ? ({t})(0 - ({u})a) : a;",
    "square": "return ({t})(({u})a * ({u})a);",
    "cube": "return ({t})(({u})a * ({u})a * ({u})a);",
    "fourth": "return ({t})(({u})a * ({u})a * ({u})a * ({u})a);",
    "rshift": "return ({u})b < {bits} ? a >> b : a < 0 ? -1 : 0;",
    "sign": "return (a > 0) - (a < 0);",
    "gcd": (
        "{u} x = a < 0 ? 0 - ({u})a : ({u})a, y = b < 0 ? 0 - ({u})b : ({u})b;",
        "while (y != 0) {{",
        "    {u} r = x % y;",
        "    x = y;",
        "    y = r;",
        "}}",
        "return ({t})x;",
    ),
}
_UNSIGNED: Final = {
    "floordiv": "return a / b;",
    "floormod": "return a % b;",
    "rshift": "return b < {bits} ? a >> b : 0;",
    "sign": "return a > 0;",
    "gcd": (
        "while (b != 0) {{",
        "    {t} r = a % b;",
        "    a = b;",
        "    b = r;",
        "}}",
        "return a;",
    ),
}
_FLOAT: Final = {
    "floordiv": (
        "{t} r = {fmod}(a, b), q = (a - r) / b;",
        "if (b == 0)",
        "    return a / b;",
        "if (r != 0 && (r < 0) != (b < 0))",
        "    q -= 1;",
        "{t} whole = {floor}(q);",
        "if (q - whole > 0.5{f})",
        "    whole += 1;",
        "return q == 0 ? {copysign}(q, a / b) : whole;",
    ),
    "floormod": (
        "{t} r = {fmod}(a, b);",
        "if (r == 0)",
        "    return {copysign}(r, b);",
        "return (r < 0) != (b < 0) ? r + b : r;",
    ),
    "sign": "return a > 0 ? 1 : a < 0 ? -1 : a == 0 ? 0 : a;",
}
"""As NumPy computes them: ``floor(a / b)`` would be 10 for ``1 // 0.1``, because ``a / b`` is rounded."""
_ANY: Final = {
    "min": "return a < b ? a : b;",
    "max": "return a > b ? a : b;",
    "power": "{u} r = 1, f = ({u})a; for (; b > 0; b >>= 1, f *= f) if (b & 1) r *= f; return ({t})r;",
    "square": "return a * a;",
    "cube": "return a * a * a;",
    "fourth": "return (a * a) * (a * a);",
    "lshift": "return ({u})b < {bits} ? ({t})(({u})a << b) : 0;",
}
_UNARY: Final = frozenset({"square", "cube", "fourth", "sign", "abs"})
OPERATIONS: Final = (
    *("floordiv", "floormod", "min", "max", "power", "square", "cube", "fourth", "lshift", "rshift", "sign", "gcd"),
    *("divide", "modulo", "abs"),
)
"""Prefixes of the names of helper functions."""


def helper_source(
    operation: str, name: str, signature: str, types: tuple[str, str], dtype: np.dtype[np.generic],
    functions: Mapping[str, str],
) -> str:  # fmt: skip
    """Return the definition of a helper on one or two values of one type.

    Parameters
    ----------
    operation
        One of :data:`OPERATIONS`.
    name
        Name to define.
    signature
        Qualifiers and result type.
    types
        C type of the arguments, and the unsigned integer type that is at least as wide as it and as int.
    dtype
        Type of the arguments in NumPy.
    functions
        C names of :data:`FLOAT_FUNCTIONS` on this type.
    """
    ctype, unsigned = types
    suffix = "f" if dtype.name == "float32" else ""
    words = {"t": ctype, "u": unsigned, "f": suffix, "bits": 8 * dtype.itemsize, **functions}
    head = f"{signature} {name}({ctype} a)" if operation in _UNARY else f"{signature} {name}({ctype} a, {ctype} b)"
    own = _FLOAT if is_floating(dtype) else _SIGNED if is_signed(dtype) else _UNSIGNED
    body = (_ANY | own)[operation]
    if isinstance(body, str):
        return f"{head} {{ {body.format(**words)} }}"
    return "\n".join([head, "{", *(f"    {line.format(**words)}" for line in body), "}"])
