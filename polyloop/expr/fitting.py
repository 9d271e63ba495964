"""Range checks of constants against the integer types that they take: one out of range is refused, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.constants import constant_of, is_mask
from polyloop.expr.dtypes import DType, dtype_name, integer_limits, is_integer, is_unsigned
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.promotion import WEAK_INTEGERS, ScalarType, TypeConflictError
from polyloop.expr.rewrite import children

__all__ = ["check_constants", "fits"]

_SHOWN: Final = 2**128
"""Numbers from here on are not spelt out in messages."""


def check_constants(
    expr: Expression,
    parts: Sequence[Expression],
    types: Sequence[ScalarType | None],
    dtype: DType,
    type_of: Callable[[Expression], ScalarType | None],
) -> None:
    """Refuse constants that the integer type *dtype*, in which *expr* is computed, does not hold.

    ``-c`` in a sum subtracts ``c``; a pattern of bits, such as ``~7``, fits where all its bits do.

    Parameters
    ----------
    expr
        None where the one part is stored.
    parts, types
        The operands, with their types.  One that is made of constants, but is none (``if(c, -1, 1)``), is looked into.

    Raises
    ------
    TypeConflictError
        ``bad-constant``.
    """
    low, high = integer_limits(dtype)
    kind = type(expr)
    if kind is p.Sum:
        low = -high
    elif kind is p.Product:
        low = min(low, -1)
    elif kind is p.Power:
        parts = parts[:1]
    for part, found in zip(parts, types, strict=False):
        if found not in WEAK_INTEGERS:
            continue
        value = part if type(part) is int else constant_of(part)
        if value is not None:
            if not low <= value <= high and not (is_unsigned(dtype) and is_mask(part) and ~high <= value):
                raise TypeConflictError(_misfit(expr, value, dtype))
        elif type(part) is not p.Variable:
            inner = (part.then, part.else_) if type(part) is p.If else children(part)
            check_constants(part, inner, [type_of(child) for child in inner], dtype, type_of)


def _misfit(expr: Expression, value: int, dtype: DType) -> Diagnostic:
    low, high = integer_limits(dtype)
    shown = f"{value}" if abs(value) < _SHOWN else f"of {value.bit_length()} bits"
    where = f"the type of {show(expr)}" if expr is not None else "in which it is stored"
    hint = "cast the other operand to a type that holds it, such as cast(int64, ...)"
    if expr is None:
        hint = f"store a number from {low} to {high}, or cast it"
    return Diagnostic("bad-constant", f"the constant {shown} does not fit {dtype_name(dtype)}, {where}", hints=(hint,))


def fits(constant: int, dtype: DType) -> bool:
    """Return whether *dtype* holds *constant*, or is no type of integers."""
    if not is_integer(dtype):
        return True
    low, high = integer_limits(dtype)
    return low <= constant <= high
