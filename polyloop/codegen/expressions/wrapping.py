"""Integer arithmetic that may overflow: on unsigned numbers, because signed overflow is undefined in C and CUDA C."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyloop.codegen.expressions.conversions import cast
from polyloop.codegen.expressions.literals import typed_literal
from polyloop.codegen.expressions.renderer import Renderer
from polyloop.codegen.expressions.types import WORD
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, is_integer, is_signed
from polyloop.expr.nodes import Expression

__all__ = ["as_unsigned", "signed", "without_cast", "wrapping_operands"]


def signed(r: Renderer, dtype: DType, text: Code) -> Code:
    """Return unsigned *text* as a number of the signed type *dtype*."""
    found = cast(r.scope, dtype, text)
    r.wrapped[found] = text, dtype
    return found


def without_cast(r: Renderer, text: Code, dtype: DType) -> Code:
    """Return *text* without a cast to a signed type that a store to an integer of type *dtype* makes redundant."""
    inner = r.wrapped.get(text)
    return text if inner is None or not is_integer(dtype) or dtype.itemsize > inner[1].itemsize else inner[0]


def wrapping_operands(r: Renderer, parts: Sequence[Expression], dtype: DType) -> list[Code]:
    """Return the printed operands of a chain such that C computes it in the unsigned type as wide as *dtype*."""
    found = [_operand(r, part, dtype) for part in parts]
    texts = [text for text, _ in found]
    if not any(is_unsigned for _, is_unsigned in found[:2]):
        texts[0] = cast(r.scope, _unsigned(dtype), texts[0])
    return texts


def _operand(r: Renderer, expr: Expression, dtype: DType) -> tuple[Code, bool]:
    """Return a printed operand, and True if it has the unsigned type in C."""
    if type(expr) is int:
        return typed_literal(r.scope, expr, _unsigned(dtype)), True
    text = r.render(expr, dtype)
    inner = r.wrapped.get(text)
    if inner is not None and inner[1].itemsize == dtype.itemsize:
        return inner[0], True
    seen = r.types.seen(expr, dtype)
    if seen.itemsize > dtype.itemsize:
        return cast(r.scope, _unsigned(dtype), text), True
    return text, seen == _unsigned(dtype)


def as_unsigned(r: Renderer, expr: Expression, text: Code, dtype: DType) -> Code:
    """Return *text* of *expr*, stored in *dtype*, as an unsigned number, so that an update with it wraps."""
    if not is_integer(dtype) or not is_signed(dtype) or dtype.itemsize < WORD:
        return text
    if type(expr) is int:
        return typed_literal(r.scope, expr, _unsigned(dtype))
    if any(text == inner and kind == dtype for inner, kind in r.wrapped.values()):
        return text
    return cast(r.scope, _unsigned(dtype), text)


def _unsigned(dtype: DType) -> DType:
    return np.dtype(f"uint{8 * dtype.itemsize}")
