"""Folding of conditions whose value follows from the context."""

from __future__ import annotations

from typing import Final

import pymbolic.primitives as p

from polyloop.codegen.expressions.linear import is_index_arithmetic
from polyloop.codegen.expressions.renderer import Renderer
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import negated, rewrite
from polyloop.expr.nodes import Expression
from polyloop.poly.affine import Affine, affine_of

__all__ = ["decided"]

_SIGNS: Final = {">=": (1, 0), ">": (1, -1), "<=": (-1, 0), "<": (-1, -1)}
"""The row for ``difference <op> 0``: the factor of the difference, and a constant to add."""


def decided(r: Renderer, expr: Expression) -> bool | None:
    """Return the truth value of a condition on loop variables and sizes, None if the context does not decide it."""
    r.used_context = True
    match expr:
        case p.Comparison():
            return _compared(r, expr)
        case p.LogicalNot():
            found = decided(r, expr.child)
            return None if found is None else not found
        case p.LogicalAnd() | p.LogicalOr():
            decides = isinstance(expr, p.LogicalOr)
            parts = [decided(r, child) for child in expr.children]
            if decides in parts:
                return decides
            return None if None in parts else not decides
        case _:
            return None


def _compared(r: Renderer, expr: p.Comparison) -> bool | None:
    """Return the truth value of a comparison of affine forms, None if the context does not decide it."""
    parts = (expr.left, expr.right)
    if not is_index_arithmetic(parts, r.scope, r.types.of_name):
        return None
    left, right = affine_of(expr.left), affine_of(expr.right)
    if left is None or right is None:
        return None
    known = {x: Affine((), v) for x in left.names() | right.names() if isinstance(v := r.scope.values.get(x), int)}
    difference = rewrite(left.add(right, -1).substitute(known), r.scope.divisibility)
    operator = str(getattr(expr.operator, "value", expr.operator))
    if operator in _SIGNS:
        sign, more = _SIGNS[operator]
        return _row(difference.scale(sign).add(Affine((), more)), r.context)
    least, most = _row(difference, r.context), _row(difference.scale(-1), r.context)
    equal = True if least and most else False if least is False or most is False else None
    return equal if equal is None or operator == "==" else not equal


def _row(row: Affine, context: Context) -> bool | None:
    """Return the truth value of ``row >= 0``, None if it is not known."""
    if context.implies(row):
        return True
    return False if context.implies(negated(row)) else None
