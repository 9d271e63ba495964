"""Literals: constants as C text, of exactly their type."""

from __future__ import annotations

from math import isinf, isnan
from typing import Final

import numpy as np

from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, as_real, is_bool, is_complex, is_floating, is_unsigned

__all__ = ["literal", "typed_literal"]

_FLOAT: Final[DType] = np.dtype("float32")


def literal(scope: Scope, value: complex, dtype: DType) -> Code:
    """Return *value* as a constant of *dtype*, which is no 16-bit floating-point type.

    A real number of a complex type is written as a real number: C converts it.
    """
    if isinstance(value, complex):
        assert is_complex(dtype), f"{value} is not {dtype}"
        real = as_real(dtype)
        parts = [_floating(scope, part, real) for part in (value.real, value.imag)]
        return c.Template(scope.spelling("complex", dtype), tuple(parts))
    if is_bool(dtype):
        return c.Literal("true" if value else "false", float(value))
    if is_floating(dtype) or is_complex(dtype):
        return _floating(scope, float(value), as_real(dtype))
    return _integer(int(value), dtype, scope.language.syntax.long)


def typed_literal(scope: Scope, value: complex, dtype: DType) -> Code:
    """Return *value* as a literal that has the type *dtype* in C, too, as the other operand may be narrower."""
    if dtype.kind not in "iu" or dtype.itemsize <= np.dtype(np.int32).itemsize or value == -(2**63):
        return literal(scope, value, dtype)
    assert not isinstance(value, complex), f"{value} is not {dtype}"
    long = scope.language.syntax.long
    return c.integer(int(value), f"u{long}" if is_unsigned(dtype) else long)


def _integer(value: int, dtype: DType, long: str) -> Code:
    if value < 0 and is_unsigned(dtype):  # a term that is subtracted: its literal has the width of the number
        return c.Unary(c.NEGATIVE, _integer(-value, dtype, long))
    suffix = "u" if is_unsigned(dtype) and dtype.itemsize >= 4 else ""
    if not -(2**31) <= value < (2**32 if suffix else 2**31):
        suffix = f"u{long}" if suffix or value >= 2**63 else long
    if value in (-(2**31), -(2**63)):
        return c.Parentheses(c.binary(c.MINUS, c.integer(value + 1, suffix), c.integer(1)))
    return c.integer(value, suffix)


def _floating(scope: Scope, value: float, dtype: DType) -> Code:
    if isnan(value):
        return c.Raw(scope.language.constants.not_a_number[dtype.name])
    if isinf(value):
        scope.define("INFINITY")
        infinity = c.Raw(scope.language.constants.infinity[dtype.name])
        return infinity if value > 0 else c.Unary(c.NEGATIVE, infinity)
    is_single = dtype == _FLOAT
    with np.errstate(over="ignore"):  # 1e300 is infinite, as in NumPy
        text = str(np.float32(value)) if is_single else repr(value)
    if text.lstrip("-") == "inf":
        return _floating(scope, float(text), dtype)
    if "." not in text and "e" not in text:
        text += ".0"
    text = f"{text}f" if is_single else text
    literal = c.Literal(text.lstrip("-"), abs(value))
    return c.Unary(c.NEGATIVE, literal) if text.startswith("-") else literal
