"""Index expressions, made of inames and sizes alone: exact integers, as in Python.

Such a value is converted to the type of the other operand, or of the variable that it is assigned to.  All other
arithmetic is carried out in the type of its operands, and wraps there as NumPy's does.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

import pymbolic.primitives as p

from polyloop.expr.foreign import ForeignName
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import children, map_nodes

__all__ = ["EXACT_FUNCTIONS", "is_index_value", "is_ring", "weight", "without_conditions"]

EXACT_FUNCTIONS: Final = frozenset({"abs", "min", "max", "sign", "gcd"})
_RING: Final = frozenset({p.Sum, p.Product})
_BITS: Final = frozenset({p.BitwiseNot, p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor})
_WHOLE: Final = _RING | {p.FloorDiv, p.Remainder, p.Min, p.Max} | _BITS
_BY_NUMBER: Final = frozenset({p.Power, p.LeftShift, p.RightShift})
_MOST: Final = 63


def is_index_value(expr: Expression, is_index: Callable[[str], bool]) -> bool:
    """Return whether *expr* is an integer that is made of names for which *is_index* holds, and of numbers.

    Of a choice between such numbers, the condition may be anything.
    """
    kind = type(expr)
    if kind is p.Variable:
        return is_index(expr.name)
    if kind is p.Call:
        is_exact = not isinstance(expr.function, ForeignName) and expr.function.name in EXACT_FUNCTIONS
        return is_exact and _all(expr.parameters, is_index)
    if kind in _BY_NUMBER:
        base, number = children(expr)
        return type(number) is int and 0 <= number <= _MOST and is_index_value(base, is_index)
    if kind is p.If:
        return _all((expr.then, expr.else_), is_index)
    return kind in _WHOLE and _all(children(expr), is_index)


def without_conditions(expr: Expression) -> Expression:
    """Return an index expression with ``if True`` for the condition of each choice, for bounds of its value."""
    return map_nodes(expr, lambda node: p.If(True, node.then, node.else_) if type(node) is p.If else node)


def _all(parts: tuple[Expression, ...], is_index: Callable[[str], bool]) -> bool:
    others = [part for part in parts if type(part) is not int]
    return bool(others) and all(is_index_value(part, is_index) for part in others)


def is_ring(expr: Expression) -> bool:
    """Return whether *expr* consists of sums and products, which are right modulo any power of 2."""
    return not children(expr) or (type(expr) in _RING and all(map(is_ring, children(expr))))


def weight(expr: Expression) -> int:
    """Return an upper bound on the magnitude of *expr* and its parts if every variable were 1."""
    kind = type(expr)
    if kind is int:
        return abs(int(expr))
    if kind is p.If:
        return max(weight(expr.then), weight(expr.else_))
    parts: list[int] = [weight(part) for part in children(expr)]
    if kind is p.Product:
        return prod(parts)
    if kind is p.LeftShift:
        return parts[0] << int(expr.shift)
    if kind is p.Power:
        return int(max(1, parts[0]) ** int(expr.exponent))
    return max(1, sum(parts)) if kind is p.Sum else max([1, *parts])
