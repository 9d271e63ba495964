"""Random typed expressions with their values, by NumPy 2 and the rules of docs/adr/0004-types.md.

An expression is drawn together with its values for the elements of :data:`DATA`, and with bounds of the rounding errors
on the way.  Elements at which an error decides (a comparison of equal numbers, ``floor`` just below an integer) are
left out.  Nothing here uses polyloop's types.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

__all__ = ["COMPLEX", "COUNT", "DATA", "FLOATS", "INTEGERS", "TABLES", "Drawn", "computed", "dtype_of", "limits_of"]

Array = np.ndarray[Any, Any]
COUNT: Final = 24
INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
COMPLEX: Final = ("complex64", "complex128")
WEAK: Final = "constant"
"""The type of a floating-point value whose width is still open: an integer by an integer, or by a constant like 0.5."""


def dtype_of(name: str) -> Any:  # noqa: ANN401 - NumPy's types of types
    """Return the NumPy type of this name."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def computed(name: str) -> Any:  # noqa: ANN401
    """Return the NumPy type in which values of this type are computed."""
    return np.dtype({"float16": "float32", "bfloat16": "float32", WEAK: "float64"}.get(name, name))


def limits_of(name: str) -> tuple[int, int]:
    """Return the least and the greatest integer of a type."""
    found = np.iinfo(name)
    return int(found.min), int(found.max)


def _data() -> dict[str, Array]:
    rng = np.random.default_rng(1)
    found: dict[str, Array] = {"bool": rng.integers(0, 2, COUNT).astype(bool)}
    for name in INTEGERS:
        low, high = limits_of(name)
        edges = [0, 1, 2, 3, 7, high, low, high - 1, low + 1, high // 2]
        small = [int(x) for x in rng.integers(max(low, -99), 99, COUNT - len(edges))]
        found[name] = np.array([*edges, *small], name)
    for name in FLOATS:
        plain = [0.0, 0.5, -1.0, 3.0, -0.25, 1.5, 2.5, -2.5, 100.0]
        found[name] = np.array([*plain, *rng.uniform(-4, 4, COUNT - len(plain))]).astype(dtype_of(name))
    for name in COMPLEX:
        found[name] = (rng.uniform(-2, 2, COUNT) + 1j * rng.uniform(-2, 2, COUNT)).astype(name)
    return found


DATA: Final[Mapping[str, Array]] = _data()
TABLES: Final[Mapping[str, Array]] = {
    name: np.random.default_rng(2).integers(0, 100, (8, 8)).astype(name) for name in ("uint16", "int32", "float64")
}
"""Arrays of which elements anywhere are read."""


@dataclass(frozen=True)
class Drawn:
    """An expression and its values.

    Attributes
    ----------
    type
        What the documentation says that its type is.
    value
        Its values, in the type that it is computed in.
    error
        Bounds of the errors of ``value``; 0 where it is exact.
    sure
        The elements at which the value follows from the rules: no error decides about it.
    """

    text: str
    type: str
    value: Array
    error: Array
    sure: Array

    @property
    def is_integer(self) -> bool:
        """True if the type is an integer type."""
        return self.type in INTEGERS


def leaf(name: str) -> Drawn:
    """Return an element of the input of this type."""
    value = DATA[name].astype(computed(name))
    return Drawn(f"v_{name}[i]", name, value, np.zeros(COUNT), np.ones(COUNT, bool))


def made(text: str, name: str, value: Array, *parts: Drawn, error: Array | float = 0.0) -> Drawn:
    """Return an expression of *parts*, sure where they are."""
    sure = np.logical_and.reduce([np.ones(COUNT, bool), *(part.sure for part in parts)])
    value = np.broadcast_to(np.asarray(value).astype(computed(name)), (COUNT,))
    return Drawn(text, name, value, np.broadcast_to(np.asarray(error, float), (COUNT,)), sure)


def epsilon(name: str) -> float:
    """Return the machine epsilon of the type that *name* is computed in; open widths may become float32."""
    return 2.0**-52 if name in ("float64", "complex128") else 2.0**-23


def rounded(text: str, name: str, apply: Callable[..., Any], *parts: Drawn, ulps: float = 2.0) -> Drawn:
    """Return a floating-point operation with bounds of its rounding error and of the propagated ones."""
    values = [part.value.astype(computed(name)) for part in parts]
    wide = [value.astype(np.complex128 if name in COMPLEX else np.float64) for value in values]
    with np.errstate(all="ignore"):
        value = apply(*values)
        center = apply(*wide)
        error = ulps * epsilon(name) * np.abs(center).astype(float) + 1e-37
        for k, part in enumerate(parts):
            own = part.error + (epsilon(name) * np.abs(wide[k]) if part.type != name else 0)
            for sign in (-1, 1):
                moved = [*wide[:k], wide[k] + sign * own, *wide[k + 1 :]]
                error = error + np.abs(apply(*moved) - center)
    found = made(text, name, value, *parts, error=error)
    good = np.isfinite(found.value) & np.isfinite(found.error)
    return Drawn(found.text, name, found.value, np.where(good, found.error, 0), found.sure & good)


def constant(rng: random.Random, name: str) -> tuple[str, Any]:
    """Return a constant that fits the type, as text and as a number."""
    if name in INTEGERS:
        return _integer(rng, name)
    text, value = rng.choice([("2", 2), ("0.5", 0.5), ("(-1.5)", -1.5), ("0.1", 0.1), ("3", 3), ("(1 << 3)", 8),
                              ("(3 - 5)", -2), ("1e-3", 1e-3), ("(2**10 // 3)", 341), ("~7", -8)])  # fmt: skip
    return (f"{value}j", complex(0, value)) if name in COMPLEX and rng.random() < 0.3 and value > 0 else (text, value)


def _integer(rng: random.Random, name: str) -> tuple[str, int]:
    low, high = limits_of(name)
    bits = high.bit_length()
    shift = rng.randrange(min(bits, 63))
    choices = [("1", 1), ("2", 2), ("7", 7), ("100", 100), (str(high), high), (f"(1 << {shift})", 1 << shift),
               (f"2**{shift}", 1 << shift), ("(7 // 2)", 3), ("(12 % 7 + 3*2)", 11), (f"(2**{bits} - 1)", high),
               ("0x2a", 42), ("(3 & 6)", 2), ("(5 ^ 3)", 6)]  # fmt: skip
    mask = rng.choice([0, 1, 7])
    if rng.random() < 0.2:  # a pattern of bits, with all bits of the type
        return f"~{mask}", ~mask % (high + 1) if low == 0 else ~mask
    if low < 0:
        choices += [("(-1)", -1), ("(-3)", -3), ("(3 - 5)", -2), (f"(-{high})", -high)]
    return rng.choice(choices)
