"""Checks of values against the types that take them; a constant out of the range of an integer type is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pymbolic.primitives as p

from polyloop.errors import Diagnostic
from polyloop.expr.constants import ConstantError, constant_of, folded, is_mask
from polyloop.expr.dtypes import DType, dtype_name, integer_limits, is_integer, is_unsigned
from polyloop.expr.nodes import Expression, Record
from polyloop.expr.printer import show
from polyloop.expr.promotion import WEAK_INTEGERS, ScalarType, TypeConflictError, Weak, kind_name, promote
from polyloop.expr.records import field_dtype, field_names, is_record, is_vector
from polyloop.expr.rewrite import children

__all__ = ["check_constants", "check_fields", "check_stored", "folded_constant", "misfit"]

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


def misfit(expr: Expression, dtype: DType) -> int | None:
    """Return the constant that *expr* is, if *dtype* is a type of integers that does not hold it."""
    value = constant_of(expr) if is_integer(dtype) else None
    if value is None:
        return None
    low, high = integer_limits(dtype)
    return None if low <= value <= high else value


def folded_constant(expr: Expression) -> int | None:
    """Return the integer that an expression of constants is, None for any other.

    Raises
    ------
    TypeConflictError
        ``bad-constant``: it has no value.
    """
    try:
        return folded(expr)
    except ConstantError as fault:
        raise TypeConflictError(fault.diagnostic) from None


def check_stored(
    found: ScalarType | None, wanted: DType, expr: Expression, type_of: Callable[[Expression], ScalarType | None]
) -> None:
    """Raise ``type-conflict`` where *expr*, of type *found*, cannot become a value of type *wanted*.

    A record can only become one of the same type, and what goes together with its components a vector.  Constants have
    to fit an integer type (``bad-constant``).
    """
    if isinstance(found, Weak):
        if found in WEAK_INTEGERS and is_integer(wanted):
            check_constants(None, (expr,), (found,), wanted, type_of)
        return
    if found is None or (not is_record(found) and not is_record(wanted)) or found == wanted:
        return
    if not is_vector(wanted) or promote(wanted, found) != wanted:
        message = f"'{show(expr)}' is {kind_name(found)}, and is stored as {kind_name(wanted)}"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=("name a field, or build the record",)))


def check_fields(expr: Record, type_of: Callable[[Expression], ScalarType | None]) -> None:
    """Check that each value of a record that is built can become its field, as :func:`check_stored`."""
    for value, name in zip(expr.values, field_names(expr.dtype), strict=True):
        check_stored(type_of(value), field_dtype(expr.dtype, name), value, type_of)
