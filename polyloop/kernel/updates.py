"""Updates of one variable: ``a = a + x`` as an operation and its operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, Targets, array_name
from polyloop.expr.rewrite import children, variables
from polyloop.poly.affine import affine_of

__all__ = ["COMMUTATIVE", "EXCHANGE", "NEUTRAL", "Update", "update_of"]

EXCHANGE: Final = "exchange"
"""The operation of ``a[i] = x``, where x does not read the array of the element that it replaces."""

_OPERATIONS: Final[dict[type, str]] = {
    p.Sum: "sum",
    p.Product: "product",
    p.Min: "min",
    p.Max: "max",
    p.BitwiseAnd: "and",
    p.BitwiseOr: "or",
    p.BitwiseXor: "xor",
}
COMMUTATIVE: Final = frozenset(_OPERATIONS.values())
"""Operations whose order does not matter: several updates of one element may happen in any order."""
NEUTRAL: Final = {"sum": 0, "product": 1, "or": 0, "xor": 0}
"""Neutral elements of operations that are numbers whatever the type is."""


@dataclass(frozen=True)
class Update:
    """``assignee = operation(assignee, operand)``."""

    operation: str
    operand: Expression


def update_of(assignee: Expression, expression: Expression) -> Update | None:
    """Return ``assignee = expression`` as an update of one element, None if it is no single operation on it.

    ::

        a[i] = a[i] + x          sum of x
        a[i] = x                 exchange with x
        a[i] = a[i + 1] + x      None: to read another element of the array is no part of one operation
    """
    if isinstance(assignee, Targets):
        return None
    operation = _OPERATIONS.get(type(expression))
    if operation is not None:
        rest = tuple(child for child in expression.children if not _is_element(assignee, child))
        count = len(expression.children) - len(rest)
        if count == 1 and rest and not any(_occurs(assignee, child) for child in rest):
            return Update(operation, rest[0] if len(rest) == 1 else type(expression)(rest))
    return None if array_name(assignee) in variables(expression) else Update(EXCHANGE, expression)


def _occurs(element: Expression, whole: Expression) -> bool:
    return _is_element(element, whole) or any(_occurs(element, child) for child in children(whole))


def _is_element(element: Expression, expr: Expression) -> bool:
    """Return whether *expr* is an element of an array, however that is written: ``a[i + 1]``, ``a[1 + i]``."""
    if element == expr:
        return True
    if type(element) is not p.Subscript or type(expr) is not p.Subscript or element.aggregate != expr.aggregate:
        return False
    pairs = list(zip(element.index_tuple, expr.index_tuple, strict=False))
    is_whole = len(element.index_tuple) == len(expr.index_tuple)
    return is_whole and all(x == y or ((form := affine_of(x)) is not None and form == affine_of(y)) for x, y in pairs)
