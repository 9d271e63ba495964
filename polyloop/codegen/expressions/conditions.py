"""Conditions in C: comparisons, their combinations, and choices by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pymbolic.primitives as p

from polyloop.codegen.expressions.addresses import index_text
from polyloop.codegen.expressions.fold_conditions import decided
from polyloop.codegen.expressions.linear import is_index_arithmetic
from polyloop.codegen.expressions.operands import argument, operands_of
from polyloop.codegen.expressions.renderer import Renderer, Rule
from polyloop.codegen.expressions.types import WORD
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.dtypes import DType, is_complex, is_integer, is_signed
from polyloop.expr.nodes import Expression
from polyloop.expr.promotion import Weak

__all__ = ["CONDITIONS"]


def _if(r: Renderer, expr: p.If, want: DType | None) -> Code:
    parts = (expr.then, expr.else_)
    dtype = r.types.common(parts, want)
    holds = decided(r, expr.condition)
    if holds is not None:
        return argument(r, expr.then if holds else expr.else_, dtype)
    if is_complex(dtype):
        then, orelse = (argument(r, part, dtype) for part in parts)
    else:
        then, orelse = operands_of(r, parts, dtype)
    inside = r.types if r.types.is_index else r.values  # the condition may read data, unlike the index values
    return c.Choice(r.render_as(inside, expr.condition, None), then, orelse)


def _comparison(r: Renderer, expr: p.Comparison, want: DType | None) -> Code:
    parts = (expr.left, expr.right)
    if not r.types.is_index and is_index_arithmetic(parts, r.scope, r.types.of_name):
        return r.render_as(r.indices, expr, want)
    dtype = r.types.common(parts, None)
    operator = str(getattr(expr.operator, "value", expr.operator))
    if is_complex(dtype):
        r.scope.operator(operator, dtype, dtype)
        left, right = (argument(r, part, dtype) for part in parts)
    elif r.types.is_index:
        left, right = (index_text(r, part) for part in parts)
    elif _is_compared_as_it_is(r, parts, dtype):
        left, right = (r.render(part, None) for part in parts)  # C compares them in the wider of their types
    else:
        left, right = operands_of(r, parts, dtype)
    return c.binary(c.OPERATORS[operator], left, right)


def _is_compared_as_it_is(r: Renderer, parts: Sequence[Expression], dtype: DType) -> bool:
    """Return True if one of *parts* is an index value, and C compares it with the other exactly, without casts."""
    others = [part for part in parts if not (type(part) is int or r.types.is_number(part))]
    if not others:
        return True
    is_narrow = is_integer(dtype) and is_signed(dtype) and dtype.itemsize <= WORD
    return is_narrow and len(others) < len(parts) and not isinstance(r.types.of(others[0]), Weak)


def _logical(r: Renderer, expr: p.LogicalAnd | p.LogicalOr, want: DType | None) -> Code:
    is_and = isinstance(expr, p.LogicalAnd)
    known = [decided(r, child) for child in expr.children]
    left = [child for child, holds in zip(expr.children, known, strict=True) if holds is not is_and]
    if len(left) == 1 and isinstance(left[0], p.Comparison):
        return r.render(left[0], want)
    texts = [r.render(child, None) for child in (left if len(left) > 1 else expr.children)]
    return c.binary(c.AND if is_and else c.OR, *texts)


def _logical_not(r: Renderer, expr: p.LogicalNot, want: DType | None) -> Code:
    return c.Unary(c.NOT, r.render(expr.child, None))


CONDITIONS: Final[Mapping[type, Rule]] = {
    p.If: _if,
    p.Comparison: _comparison,
    p.LogicalAnd: _logical,
    p.LogicalOr: _logical,
    p.LogicalNot: _logical_not,
}
