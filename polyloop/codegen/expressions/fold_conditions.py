"""Folding of conditions whose value follows from the context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pymbolic.primitives as p

from polyloop.codegen.expressions.linear import is_index_arithmetic
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import negated, rewrite
from polyloop.codegen.scope import Scope
from polyloop.expr.dtypes import DType
from polyloop.expr.nodes import Expression
from polyloop.poly.affine import Affine, affine_of

__all__ = ["decided"]

_SIGNS: Final = {">=": (1, 0), ">": (1, -1), "<=": (-1, 0), "<": (-1, -1)}
"""The row for ``difference <op> 0``: the factor of the difference, and a constant to add."""


def decided(
    expr: Expression, scope: Scope, context: Context, type_of: Callable[[str], DType | None]
) -> bool | None:
    """Return the truth value of a condition on loop variables and sizes in *context*, None if it is not known."""
    match expr:
        case p.Comparison():
            return _compared(expr, scope, context, type_of)
        case p.LogicalNot():
            found = decided(expr.child, scope, context, type_of)
            return None if found is None else not found
        case p.LogicalAnd() | p.LogicalOr():
            decides = isinstance(expr, p.LogicalOr)
            parts = [decided(child, scope, context, type_of) for child in expr.children]
            if decides in parts:
                return decides
            return None if None in parts else not decides
        case _:
            return None


def _compared(
    expr: p.Comparison, scope: Scope, context: Context, type_of: Callable[[str], DType | None]
) -> bool | None:
    parts = (expr.left, expr.right)
    if not is_index_arithmetic(parts, scope, type_of):
        return None
    left, right = affine_of(expr.left), affine_of(expr.right)
    if left is None or right is None:
        return None
    known = {x: Affine((), v) for x in left.names() | right.names() if isinstance(v := scope.values.get(x), int)}
    difference = rewrite(left.add(right, -1).substitute(known), scope.divisibility)
    operator = str(getattr(expr.operator, "value", expr.operator))
    if operator in _SIGNS:
        sign, more = _SIGNS[operator]
        return _row(difference.scale(sign).add(Affine((), more)), context)
    least, most = _row(difference, context), _row(difference.scale(-1), context)
    equal = True if least and most else False if least is False or most is False else None
    return equal if equal is None or operator == "==" else not equal


def _row(row: Affine, context: Context) -> bool | None:
    """Return the truth value of ``row >= 0``, None if it is not known."""
    if context.implies(row):
        return True
    return False if context.implies(negated(row)) else None
