"""Sums, products and choices that drop what has no effect: ``1*a``, ``0 + a``, a choice between equals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pymbolic.primitives as p

from polyloop.expr.constants import number_of
from polyloop.expr.nodes import Expression, negate

__all__ = ["call", "choose", "conjunction", "is_one", "is_zero", "minus", "over", "plus", "times", "where"]


def is_zero(expr: Expression) -> bool:
    """Return whether *expr* is the number 0."""
    return type(expr) in (int, float) and expr == 0


def is_one(expr: Expression) -> bool:
    """Return whether *expr* is the number 1."""
    return type(expr) in (int, float) and expr == 1


def times(*factors: Expression) -> Expression:
    """Return a product, its number in front."""
    number: Any = 1
    rest: list[Expression] = []
    for factor in factors:
        parts = factor.children if type(factor) is p.Product else (factor,)
        for part in parts:
            if type(part) in (int, float):
                number *= part
            else:
                rest.append(part)
    if number == 0 or not rest:
        return number
    if number == -1:
        return negate(rest[0] if len(rest) == 1 else p.Product(tuple(rest)))
    if number != 1:
        rest.insert(0, number)
    return rest[0] if len(rest) == 1 else p.Product(tuple(rest))


def plus(*terms: Expression) -> Expression:
    """Return a sum."""
    kept: list[Expression] = []
    for term in terms:
        if not is_zero(term):
            kept += term.children if type(term) is p.Sum else (term,)
    if not kept:
        return 0
    return kept[0] if len(kept) == 1 else p.Sum(tuple(kept))


def minus(left: Expression, right: Expression) -> Expression:
    """Return ``left - right``."""
    return plus(left, negate(right))


def over(numerator: Expression, denominator: Expression) -> Expression:
    """Return a quotient."""
    return numerator if is_zero(numerator) or is_one(denominator) else p.Quotient(numerator, denominator)


def where(tests: Iterable[tuple[Expression, bool]], value: Expression) -> Expression:
    """Return *value* where each condition has its truth value, 0 elsewhere."""
    condition = conjunction(test if holds else p.LogicalNot(test) for test, holds in tests)
    return value if condition is True else p.If(condition, value, 0)


def choose(condition: Expression, then: Expression, other: Expression) -> Expression:
    """Return ``then if condition else other``."""
    return then if then == other and number_of(then) is not None else p.If(condition, then, other)


def call(name: str, *arguments: Expression) -> Expression:
    """Return the call of a function."""
    return p.Call(p.Variable(name), tuple(arguments))


def conjunction(parts: Iterable[Expression]) -> Expression:
    """Return the condition that all *parts* hold, True if there is none."""
    kept = tuple(parts)
    if not kept:
        return True
    return kept[0] if len(kept) == 1 else p.LogicalAnd(kept)
