"""Exact evaluation of the integer expressions in a generated program (sizes, grids, checks)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from pymbolic import primitives as p

from polyloop.expr.nodes import Expression
from polyloop.verification.computed_subscripts import Inside

__all__ = ["affine_in", "describe", "evaluate", "names_in"]

_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(expression: Expression, values: Mapping[str, int]) -> int:
    """Return the value of *expression* in exact integers; truth values are 0 and 1.

    Division and remainder round towards minus infinity, as in Python and in ISL.

    Parameters
    ----------
    values
        A value for every variable of *expression*.
    """
    match expression:
        case bool() | int() | np.integer() | np.bool_():
            return int(expression)
        case p.Variable():
            assert expression.name in values, f"no value for '{expression.name}'"
            return values[expression.name]
        case p.Sum():
            return sum(evaluate(child, values) for child in expression.children)
        case p.Product():
            product = 1
            for child in expression.children:
                product *= evaluate(child, values)
            return product
        case p.FloorDiv():
            return evaluate(expression.numerator, values) // evaluate(expression.denominator, values)
        case p.Remainder():
            return evaluate(expression.numerator, values) % evaluate(expression.denominator, values)
        case p.Power():
            exponent = evaluate(expression.exponent, values)
            assert exponent >= 0, f"negative exponent in {expression}"
            return int(evaluate(expression.base, values) ** exponent)
        case _:
            return int(_choice(expression, values))


def _choice(expression: Expression, values: Mapping[str, int]) -> bool | int:
    match expression:
        case p.Min():
            return min(evaluate(child, values) for child in expression.children)
        case p.Max():
            return max(evaluate(child, values) for child in expression.children)
        case p.Comparison():
            compare = _COMPARE[str(getattr(expression.operator, "value", expression.operator))]
            return compare(evaluate(expression.left, values), evaluate(expression.right, values))
        case p.LogicalAnd():
            return all(evaluate(child, values) for child in expression.children)
        case p.LogicalOr():
            return any(evaluate(child, values) for child in expression.children)
        case p.LogicalNot():
            return not evaluate(expression.child, values)
        case p.If():
            taken = expression.then if evaluate(expression.condition, values) else expression.else_
            return evaluate(taken, values)
        case Inside():
            return expression.holds(values)
        case _:
            raise AssertionError(f"not an integer expression: {expression!r}")


def names_in(expression: Expression) -> frozenset[str]:
    """Return the names of all variables of *expression*."""
    match expression:
        case bool() | int() | np.integer() | np.bool_():
            return frozenset()
        case p.Variable():
            return frozenset((expression.name,))
        case p.Sum() | p.Product() | p.Min() | p.Max() | p.LogicalAnd() | p.LogicalOr():
            return frozenset[str]().union(*(names_in(child) for child in expression.children))
        case p.FloorDiv() | p.Remainder():
            return names_in(expression.numerator) | names_in(expression.denominator)
        case p.Power():
            return names_in(expression.base) | names_in(expression.exponent)
        case p.Comparison():
            return names_in(expression.left) | names_in(expression.right)
        case p.LogicalNot():
            return names_in(expression.child)
        case p.If():
            return names_in(expression.condition) | names_in(expression.then) | names_in(expression.else_)
        case Inside():
            return expression.names
        case _:
            raise AssertionError(f"not an integer expression: {expression!r}")


def affine_in(
    expression: Expression, known: Mapping[str, int]
) -> tuple[dict[str, int], int] | None:
    """Return *expression* as coefficients of its unknown names and a constant.

    None where the unknowns occur in no affine way, as in ``n // 2`` with ``n`` unknown.
    """
    if names_in(expression) <= known.keys():
        return {}, evaluate(expression, known)
    match expression:
        case p.Variable():
            return {expression.name: 1}, 0
        case p.Sum():
            total: dict[str, int] = {}
            constant = 0
            for child in expression.children:
                part = affine_in(child, known)
                if part is None:
                    return None
                for name, coefficient in part[0].items():
                    total[name] = total.get(name, 0) + coefficient
                constant += part[1]
            return {name: c for name, c in total.items() if c}, constant
        case p.Product():
            form: tuple[dict[str, int], int] = ({}, 1)
            for child in expression.children:
                part = affine_in(child, known)
                if part is None or (part[0] and form[0]):
                    return None
                linear, factor = (form, part[1]) if form[0] else (part, form[1])
                form = ({n: c * factor for n, c in linear[0].items() if c * factor}, linear[1] * factor)
            return form
        case _:
            return None


def describe(expression: Expression, values: Mapping[str, int]) -> str:
    """Return ``n = 5, m = 3`` for the names of *expression*, or an empty string."""
    return ", ".join(f"{name} = {values[name]}" for name in sorted(names_in(expression)) if name in values)
