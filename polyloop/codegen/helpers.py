"""Small functions that generated code may need: division and remainder as in Python, extremes, integer powers."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

__all__ = ["OPERATIONS", "helper_source"]

_SIGNED: Final = {
    "floordiv": "{t} q = a / b; return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;",
    "floormod": "{t} r = a % b; return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;",
}
_UNSIGNED: Final = {"floordiv": "return a / b;", "floormod": "return a % b;"}
_FLOAT: Final = {
    "floordiv": (
        "{t} r = fmod{f}(a, b), q = (a - r) / b;",
        "if (b == 0)",
        "    return a / b;",
        "if (r != 0 && (r < 0) != (b < 0))",
        "    q -= 1;",
        "{t} whole = floor{f}(q);",
        "if (q - whole > 0.5{f})",
        "    whole += 1;",
        "return q == 0 ? copysign{f}(q, a / b) : whole;",
    ),
    "floormod": (
        "{t} r = fmod{f}(a, b);",
        "if (r == 0)",
        "    return copysign{f}(r, b);",
        "return (r < 0) != (b < 0) ? r + b : r;",
    ),
}
"""As NumPy computes them: ``floor(a / b)`` would be 10 for ``1 // 0.1``, because ``a / b`` is rounded."""
_ANY: Final = {
    "min": "return a < b ? a : b;",
    "max": "return a > b ? a : b;",
    "power": "{t} r = 1; for (; b > 0; b >>= 1, a *= a) if (b & 1) r *= a; return r;",
}
OPERATIONS: Final = ("floordiv", "floormod", "min", "max", "power")
"""Names that helper functions begin with."""


def helper_source(operation: str, name: str, signature: str, ctype: str, dtype: np.dtype[np.generic]) -> str:
    """Return the definition of a helper on two values of one type.

    Parameters
    ----------
    operation
        One of :data:`OPERATIONS`.
    name
        Name to define.
    signature
        Qualifiers and result type.
    ctype, dtype
        Type of the arguments, in C and in NumPy.
    """
    fill = partial(str.format, t=ctype, f="f" if dtype.name == "float32" else "")
    head = f"{signature} {name}({ctype} a, {ctype} b)"
    if dtype.kind == "f" and operation in _FLOAT:
        return "\n".join([head, "{", *(f"    {fill(line)}" for line in _FLOAT[operation]), "}"])
    body = ((_UNSIGNED if dtype.kind in "ub" else _SIGNED) | _ANY)[operation]
    return f"{head} {{ {fill(body)} }}"
