"""Types of the results of operators, casts and fields, and refusals of operands that these are not defined for.

Each function is given the types of the operands; the walk over an expression is in ``typing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.errors import Diagnostic, unknown_name
from polyloop.expr.constants import number_of
from polyloop.expr.dtypes import DType, dtype_name, find_dtype, is_bool, is_complex, is_floating, is_inexact, is_integer
from polyloop.expr.nodes import Expression, Lookup, Reduction, TypeCast
from polyloop.expr.printer import show
from polyloop.expr.promotion import (
    DEFAULT_INT,
    WEAK_INTEGERS,
    ScalarType,
    TypeConflictError,
    Weak,
    common_type,
    kind_name,
    quotient_type,
    settle,
)
from polyloop.expr.records import component, field_dtype, field_names, is_record, is_vector
from polyloop.expr.rewrite import children

__all__ = [
    "BITWISE",
    "LOGIC",
    "cast_type",
    "check_condition",
    "check_index",
    "check_integers",
    "check_operands",
    "common_of",
    "field_type",
    "operator_type",
    "refuse_complex",
]

_ARITHMETIC: Final = frozenset({p.Sum, p.Product, p.Power})
_ELEMENTWISE: Final = frozenset({p.Sum, p.Product, p.Quotient, p.Min, p.Max})
_DIVISION: Final = frozenset({p.FloorDiv, p.Remainder})
_SHIFTS: Final = frozenset({p.LeftShift, p.RightShift})
BITWISE: Final = frozenset({p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor, p.BitwiseNot}) | _SHIFTS
"""Operations on the bits of integers, which are computed as integers whatever takes the result."""
LOGIC: Final = frozenset({p.LogicalAnd, p.LogicalOr, p.LogicalNot})
"""Operations on conditions, which need no common type."""
_BOOL: Final[DType] = np.dtype("bool")
_CAST_HINT: Final = "cast it first, such as cast(int32, ...)"


def common_of(expr: Expression, types: Sequence[ScalarType]) -> ScalarType:
    """Return the common type of the operands of *expr*, which messages show."""
    try:
        return common_type(types)
    except TypeConflictError as conflict:
        message = f"{conflict.diagnostic.message}: {show(expr)}"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=conflict.diagnostic.hints)) from None


def operator_type(expr: Expression, common: ScalarType | None) -> ScalarType | None:
    """Return the type of an operation on operands of the type *common*, None while that is unknown."""
    kind = type(expr)
    if kind in LOGIC:
        return _BOOL
    if kind is p.Comparison:
        if str(getattr(expr.operator, "value", expr.operator)) not in ("==", "!="):
            refuse_complex(expr, common, "complex numbers have no order", "compare abs(z), real(z) or imag(z)")
        return _BOOL
    if kind is p.Quotient:
        return None if common is None else quotient_type(common)
    if kind is p.Min or kind is p.Max:
        refuse_complex(expr, common, "complex numbers have no order", "compare abs(z), real(z) or imag(z)")
        return common
    if kind in _DIVISION:
        _check_division(expr, common)
    elif kind in _SHIFTS:
        _check_shift(expr, common)
    elif kind is p.Power:
        _check_power(expr, common)
    else:
        assert kind in _ARITHMETIC or kind in BITWISE, f"unexpected node {kind.__name__}"
    return DEFAULT_INT if common == _BOOL and kind not in _ON_BOOLS else common


_ON_BOOLS: Final = BITWISE - _SHIFTS
"""Operations that make a bool of two."""


def _check_division(expr: p.FloorDiv | p.Remainder, common: ScalarType | None) -> None:
    hint = "divide with /, or take real(z) and imag(z)"
    refuse_complex(expr, common, "complex numbers have no quotient that is rounded downward", hint)
    if _is_integral(common) and number_of(expr.denominator) == 0:
        message = f"an integer is divided by zero: {show(expr)}"
        raise TypeConflictError(Diagnostic("bad-constant", message, hints=("divide by another number",)))


def _check_power(expr: p.Power, common: ScalarType | None) -> None:
    """Refuse integers to a negative power, which NumPy refuses too."""
    exponent = number_of(expr.exponent)
    if _is_integral(common) and exponent is not None and exponent < 0:
        message = f"an integer to a negative power is no integer: {show(expr)}"
        hint = f"write 1/{show(expr.base)}**{-exponent}, or cast the base to a floating-point type"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))


def _check_shift(expr: p.LeftShift | p.RightShift, common: ScalarType | None) -> None:
    """Refuse constant shift counts for which C has no answer."""
    count = number_of(expr.shift)
    if common is None or count is None:
        return
    dtype = settle(common)
    width = 8 * (DEFAULT_INT if is_bool(dtype) else dtype).itemsize
    if not 0 <= count < width:
        message = f"a shift of {dtype_name(dtype)} by {count} bits: {show(expr)}"
        hint = f"shift by 0 to {width - 1} bits"
        raise TypeConflictError(Diagnostic("bad-constant", message, hints=(hint,)))


def _is_integral(kind: ScalarType | None) -> bool:
    """Return whether *kind* is a type of integers, or bool, that is known."""
    return kind in WEAK_INTEGERS or (isinstance(kind, np.dtype) and not is_inexact(kind))


def check_operands(expr: Expression, parts: Sequence[Expression], types: Sequence[ScalarType | None]) -> None:
    """Refuse records that an operation cannot compute with, complex conditions, and bit operations on floats."""
    if any(map(is_record, types)):
        _check_records(expr, types)
    kind = type(expr)
    if kind in LOGIC:
        for part, found in zip(parts, types, strict=True):
            check_condition(part, found)
    elif kind in BITWISE:
        hint = f"a power is written {show(p.Power(*parts))}" if kind is p.BitwiseXor and len(parts) == 2 else _CAST_HINT
        check_integers(parts, types, "bit operation on", hint)


def _check_records(expr: Expression, types: Sequence[ScalarType | None]) -> None:
    """Refuse a record as operand, but for vectors where each component can be computed by itself."""
    kind = type(expr)
    elementwise = kind in _ELEMENTWISE or (kind is Reduction and expr.operation.name not in ("any", "all"))
    for child, found in zip(children(expr), types, strict=True):
        if found is None or not is_record(found):
            continue
        whole = kind is p.Quotient and not is_floating(component(settle(found)))
        if not elementwise or not is_vector(found) or whole:
            message = f"'{show(child)}' is a record ({kind_name(found)}), which '{show(expr)}' cannot compute with"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=("compute with its fields",)))


def refuse_complex(expr: Expression, found: ScalarType | None, message: str, hint: str) -> None:
    """Raise ``type-conflict`` where *found* is a complex type."""
    if found is Weak.COMPLEX or (isinstance(found, np.dtype) and is_complex(found)):
        raise TypeConflictError(Diagnostic("type-conflict", f"{message}: {show(expr)}", hints=(hint,)))


def check_condition(expr: Expression, found: ScalarType | None) -> None:
    """Refuse a record or a complex number as a condition."""
    if is_record(found):
        message = f"the condition '{show(expr)}' is a record"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=("name a field",)))
    refuse_complex(expr, found, "a complex number is no condition", "compare it: z != 0")


def check_integers(
    parts: Sequence[Expression], types: Sequence[ScalarType | None], what: str, hint: str = _CAST_HINT
) -> None:
    """Refuse *parts* that are no integers; *what* is done with them."""
    for child, found in zip(parts, types, strict=True):
        if found in (Weak.FLOAT, Weak.COMPLEX) or (isinstance(found, np.dtype) and is_inexact(found)):
            assert found is not None
            message = f"{what} '{show(child)}', which is {kind_name(found)}"
            raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))


def check_index(expr: Expression, index: Expression, found: ScalarType | None) -> None:
    """Refuse a subscript *index* of the type *found* that is no integer."""
    if found in (Weak.FLOAT, Weak.COMPLEX) or (isinstance(found, np.dtype) and not is_integer(found)):
        assert found is not None
        what = f"subscript '{show(index)}' of '{expr.aggregate.name}'"
        message = f"{what} is not an integer but {kind_name(found)}"
        hint = "divide with // to get an integer" if "/" in show(index) else "write cast(int32, ...)"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=(hint,)))


def cast_type(expr: TypeCast, child: ScalarType | None) -> DType:
    """Return the type that ``cast`` converts a value of type *child* to."""
    found = find_dtype(expr.dtype)
    assert found is not None, f"cast to unknown type '{expr.dtype}'"
    if is_record(child) or is_record(found):
        message = f"{show(expr)} converts a record"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=("cast its fields",)))
    if not is_complex(found):
        message = f"a complex number cannot be cast to {dtype_name(found)}"
        refuse_complex(expr, child, message, "take real(z), imag(z) or abs(z) first")
    if child is Weak.HUGE and is_integer(found):
        message = f"{show(expr)} converts an integer of more than 64 bits"
        raise TypeConflictError(Diagnostic("bad-constant", message, hints=("cast a number that fits",)))
    return found


def field_type(expr: Lookup, found: ScalarType | None) -> ScalarType | None:
    """Return the type of a field of a value of type *found*."""
    if found is None:
        return None
    if isinstance(found, Weak) or not is_record(found):
        message = f"'{show(expr.aggregate)}' has no fields: it is {kind_name(found)}"
        raise TypeConflictError(Diagnostic("type-conflict", message, hints=(f"leave out '.{expr.field}'",)))
    if expr.field not in field_names(found):
        raise TypeConflictError(unknown_name("field", expr.field, field_names(found)))
    return field_dtype(found, expr.field)
