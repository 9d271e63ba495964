"""Constant folding of integer expressions: exact, as Python's integers, before a type is chosen.

``~0``, ``1 << 40``, ``2**40`` and ``3 - 5`` are numbers just as ``7`` is.  They are computed here alone, for types,
subscripts, generated code and the interpreter.  None of them is computed beyond :data:`MOST_BITS`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression

__all__ = ["MOST_BITS", "ConstantError", "constant_of", "folded", "is_mask", "number_of"]

MOST_BITS: Final = 4096
"""Numbers of more bits are refused: no type holds them, and a short text can spell one that fills the memory."""


class ConstantError(Exception):
    """An expression of constants has no value; ``diagnostic`` says why, without its place."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        super().__init__(diagnostic.message)


def folded(expr: Expression) -> int | None:
    """Return the integer that *expr* is, or None if it holds anything but integers and operations on them.

    Raises
    ------
    ConstantError
        ``bad-constant``: a number of more than :data:`MOST_BITS` bits, a shift by a negative number, a division by
        zero.  A negative power is no integer, and None.
    """
    kind: Any = type(expr)
    if kind is int:
        value: int = expr
        return value
    chain = _CHAINS.get(kind)
    if chain is not None:
        values = _values(expr.children)
        return None if values is None else _small(reduce(chain, values))
    pair = _PAIRS.get(kind)
    if pair is not None:
        names, apply = pair
        values = _values([getattr(expr, name) for name in names])
        return None if values is None else apply(*values)
    if kind is p.BitwiseNot:
        values = _values((expr.child,))
        return None if values is None else ~values[0]
    if kind is p.Call and getattr(expr.function, "name", None) == "abs" and len(expr.parameters) == 1:
        values = _values(expr.parameters)
        return None if values is None else abs(values[0])
    return None


def constant_of(expr: Expression) -> int | None:
    """Return the result of :func:`folded`, and None too where the constants have no value."""
    try:
        return folded(expr)
    except ConstantError:
        return None


def number_of(expr: Expression) -> int | None:
    """Return the result of :func:`constant_of`, and the integer that a NumPy scalar is."""
    return int(expr) if isinstance(expr, np.integer) else constant_of(expr)


def is_mask(expr: Expression) -> bool:
    """Return whether *expr*, an expression of constants, is a pattern of bits: ``~7``, ``~7 & ~(1 << 4)``, ``~0 << 3``.

    Beside an unsigned type it is that pattern in all bits of the type; other negative numbers do not fit there.
    """
    kind = type(expr)
    if kind is p.BitwiseNot:
        return True
    if kind in (p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor):
        return all(is_mask(child) or (constant_of(child) or 0) >= 0 for child in expr.children)
    return kind is p.LeftShift and is_mask(expr.shiftee)


def _values(parts: Sequence[Expression]) -> list[int] | None:
    found = []
    for part in parts:
        value = folded(part)
        if value is None:
            return None
        found.append(value)
    return found


def _refused(message: str, hint: str) -> ConstantError:
    return ConstantError(Diagnostic("bad-constant", message, hints=(hint,)))


def _too_large() -> ConstantError:
    return _refused(f"an integer of more than {MOST_BITS} bits", "write a smaller one, or a float: 1e30")


def _small(value: int) -> int:
    if value.bit_length() > MOST_BITS:
        raise _too_large()
    return value


def _power(base: int, exponent: int) -> int | None:
    if exponent < 0:
        return None
    if base in (-1, 0, 1):
        return 1 if not exponent % 2 and (base or not exponent) else base
    if (abs(base).bit_length() - 1) * exponent > MOST_BITS:
        raise _too_large()
    return _small(base**exponent)


def _left_shift(value: int, count: int) -> int:
    if count < 0:
        raise _refused(f"a shift by {count} bits", "shift by 0 bits or more")
    if value and value.bit_length() + count > MOST_BITS:
        raise _too_large()
    return value << count if value else 0


def _right_shift(value: int, count: int) -> int:
    if count < 0:
        raise _refused(f"a shift by {count} bits", "shift by 0 bits or more")
    return value >> min(count, MOST_BITS)


def _floor_division(numerator: int, denominator: int) -> int:
    if not denominator:
        raise _refused(f"{numerator} is divided by zero", "divide by another number")
    return numerator // denominator


def _remainder(numerator: int, denominator: int) -> int:
    if not denominator:
        raise _refused(f"{numerator} is divided by zero", "divide by another number")
    return numerator % denominator


_CHAINS: Final[Mapping[Any, Callable[[int, int], int]]] = {
    p.Sum: operator.add,
    p.Product: operator.mul,
    p.BitwiseAnd: operator.and_,
    p.BitwiseOr: operator.or_,
    p.BitwiseXor: operator.xor,
    p.Min: min,
    p.Max: max,
}
_PAIRS: Final[Mapping[Any, tuple[tuple[str, str], Callable[[int, int], int | None]]]] = {
    p.Power: (("base", "exponent"), _power),
    p.LeftShift: (("shiftee", "shift"), _left_shift),
    p.RightShift: (("shiftee", "shift"), _right_shift),
    p.FloorDiv: (("numerator", "denominator"), _floor_division),
    p.Remainder: (("numerator", "denominator"), _remainder),
}
