"""Conversions between types in C text: casts, 16-bit floating-point numbers, complex numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from polyloop.codegen.scope import UNARY, Scope, Text
from polyloop.expr.dtypes import DType, as_real, is_complex, is_half

__all__ = ["cast", "converted", "narrowed", "widened"]

_FLOAT: Final[DType] = np.dtype("float32")
_DOUBLE: Final[DType] = np.dtype("float64")


def cast(scope: Scope, dtype: DType, text: Text) -> Text:
    """Return *text*, a real number, as *dtype*, which C has as an arithmetic type."""
    return Text(f"({scope.ctype(dtype)}){text.within(UNARY)}", UNARY)


def widened(scope: Scope, dtype: DType, text: Text) -> Text:
    """Return a stored float16 or bfloat16 as a float."""
    return _applied(scope, "widen", dtype, text)


def narrowed(scope: Scope, dtype: DType, text: Text, have: DType) -> Text:
    """Return *text* of type *have* rounded to float16 or bfloat16, as it is stored.

    A double is rounded once where the target can; ``ml_dtypes`` too makes a bfloat16 of it by way of float32.
    """
    if have == _DOUBLE and scope.has_spelling("narrow_double", dtype):
        return _applied(scope, "narrow_double", dtype, text)
    if have != _FLOAT:
        text = cast(scope, _FLOAT, text)
    return _applied(scope, "narrow", dtype, text)


def converted(scope: Scope, text: Text, have: DType, want: DType) -> Text:
    """Return *text* of type *have* so that it can be assigned to a variable of type *want*."""
    if is_half(want):
        return narrowed(scope, want, text, have)
    if not is_complex(want) or have == want or not scope.language.operators:
        return text  # C converts by itself
    if is_complex(have):
        return Text(f"{scope.spelling('convert', want)}({text.text})")
    if have != as_real(want):
        text = cast(scope, as_real(want), text)
    return Text(scope.spelling("complex", want).format(text.text, "0.0f" if want.itemsize == 8 else "0.0"))


def _applied(scope: Scope, name: str, dtype: DType, text: Text) -> Text:
    """Return a conversion: a cast, or a call of a function."""
    spelling = scope.spelling(name, dtype)
    if spelling.startswith("("):
        return Text(f"{spelling}{text.within(UNARY)}", UNARY)
    return Text(f"{spelling}({text.text})")
