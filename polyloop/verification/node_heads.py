"""Heads and operands of two expression nodes that are compared, without what is below."""

from __future__ import annotations

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.nodes import CText, Expression, Lookup, Record, TypeCast, array_name
from polyloop.poly.affine import affine_in

__all__ = ["folded_operands", "same_head"]


def folded_operands(expr: Expression) -> tuple[Expression, ...]:
    """Return the operands of a sum or product, with its leading integers folded into one."""
    operands: tuple[Expression, ...] = expr.children
    values: list[int] = []
    for operand in operands:
        form = affine_in(operand, ())
        if form is None or form.terms or isinstance(operand, np.generic):
            break
        values.append(form.const)
    if len(values) < 2:
        return operands
    start = values[0]
    for value in values[1:]:
        start = start + value if isinstance(expr, p.Sum) else start * value
    return (start, *operands[len(values) :])


def same_head(a: Expression, b: Expression) -> bool:
    """Return True if two nodes of one kind differ in nothing but their operands."""
    match a:
        case p.Call():
            return bool(a.function == b.function)
        case p.Comparison():
            return bool(a.operator == b.operator)
        case p.Variable():
            return bool(a.name == b.name)
        case p.Subscript():
            return array_name(a) == array_name(b)
        case TypeCast() | Record():
            return bool(a.dtype == b.dtype)
        case Lookup():
            return bool(a.field == b.field)
        case CText():
            return bool((a.code, a.names, a.touched, len(a.values)) == (b.code, b.names, b.touched, len(b.values)))
        case _:
            return True
