"""Updates of one variable: ``a = a + x`` as an operation and its operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import children

__all__ = ["COMMUTATIVE", "EXCHANGE", "NEUTRAL", "Update", "update_of"]

EXCHANGE: Final = "exchange"
"""The operation of ``a = x``, where x does not read the element that it replaces."""

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
    """Return what ``assignee = expression`` does to the assignee, None if it is no single operation on it."""
    operation = _OPERATIONS.get(type(expression))
    if operation is not None:
        own = [child for child in expression.children if child == assignee]
        rest = tuple(child for child in expression.children if child != assignee)
        if len(own) == 1 and rest and not any(_occurs(assignee, child) for child in rest):
            return Update(operation, rest[0] if len(rest) == 1 else type(expression)(rest))
    return None if _occurs(assignee, expression) else Update(EXCHANGE, expression)


def _occurs(part: Expression, whole: Expression) -> bool:
    return bool(part == whole) or any(_occurs(part, child) for child in children(whole))
