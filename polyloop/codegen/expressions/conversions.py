"""Conversions between types in C text: casts, floating-point numbers of 8 and 16 bits, complex numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, as_real, is_complex, is_narrow

__all__ = ["cast", "converted", "narrowed", "widened"]

_FLOAT: Final[DType] = np.dtype("float32")
_DOUBLE: Final[DType] = np.dtype("float64")


def cast(scope: Scope, dtype: DType, text: Code) -> Code:
    """Return *text*, a real number, cast to *dtype*, an arithmetic type of C."""
    return c.Cast(scope.ctype(dtype), text)


def widened(scope: Scope, dtype: DType, text: Code) -> Code:
    """Return a stored floating-point number of 8 or 16 bits as a float."""
    return _applied(scope, "widen", dtype, text)


def bits(scope: Scope, dtype: DType, text: Code) -> Code:
    """Return the bits of a stored number of 8 or 16 bits: by a function where the type hides them, else its member."""
    return _applied(scope, "bits", dtype, text) if scope.has_spelling("bits", dtype) else c.Member(text, "bits")


def narrowed(scope: Scope, dtype: DType, text: Code, have: DType) -> Code:
    """Return *text* of type *have* rounded to a type of 8 or 16 bits, as it is stored.

    A double is rounded once if the target can do so.  Otherwise it is rounded to float32 first, as ``ml_dtypes`` does
    for bfloat16.
    """
    if have == _DOUBLE and scope.has_spelling("narrow_double", dtype):
        return _applied(scope, "narrow_double", dtype, text)
    if have != _FLOAT:
        text = cast(scope, _FLOAT, text)
    return _applied(scope, "narrow", dtype, text)


def converted(scope: Scope, text: Code, have: DType, want: DType) -> Code:
    """Return *text* of type *have*, converted for an assignment to a variable of type *want*."""
    if is_narrow(want):
        return narrowed(scope, want, text, have)
    if not is_complex(want) or have == want or not scope.language.functions.operators:
        return text  # C converts by itself
    if is_complex(have):
        return c.Apply(scope.spelling("convert", want), (text,))
    if have != as_real(want):
        text = cast(scope, as_real(want), text)
    zero = c.Literal("0.0f" if want.itemsize == 8 else "0.0", 0.0)
    return c.Template(scope.spelling("complex", want), (text, zero))


def _applied(scope: Scope, name: str, dtype: DType, text: Code) -> Code:
    """Return a conversion: a cast, or a call of a function."""
    spelling = scope.spelling(name, dtype)
    if spelling.startswith("("):
        return c.Cast(spelling[1:-1], text)
    return c.Apply(spelling, (text,))
