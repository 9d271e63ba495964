"""Interval arithmetic of integer expressions over boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.constants import MOST_BITS
from polyloop.expr.dtypes import integer_limits, is_integer
from polyloop.expr.nodes import Expression, TypeCast
from polyloop.expr.rewrite import children
from polyloop.poly.affine import Affine, Floor

__all__ = ["Box", "Interval", "form_range", "is_computed", "value_range"]

Interval: TypeAlias = tuple[int, int]
"""The least and the greatest integer that something may be; what it may be is among them."""

Box: TypeAlias = Mapping[str, Interval]


def is_computed(expr: Expression) -> bool:
    """Return whether :func:`value_range` knows every operation of *expr*: integers, and variables of integers."""
    kind = type(expr)
    if kind is p.Variable:
        return True
    if kind is p.Call:
        known = getattr(expr.function, "name", None) in _FUNCTIONS
        return known and all(map(is_computed, expr.parameters))
    if kind is TypeCast:
        return is_integer(np.dtype(expr.dtype)) and is_computed(expr.child)
    if kind in _NODES:
        return all(map(is_computed, children(expr)))
    return isinstance(expr, int | np.integer | np.bool_)


def value_range(expr: Expression, box: Box) -> Interval | None:
    """Return an interval of integers that contains *expr* for variables in *box*, None if none is known.

    The value is that of exact integers, as subscripts have; at one point, it is that value, twice.
    """
    kind: Any = type(expr)
    if kind is p.Variable:
        return box[expr.name]
    if isinstance(expr, int | np.integer | np.bool_):
        return int(expr), int(expr)
    if kind is TypeCast:
        return _cast(expr, value_range(expr.child, box))
    if kind is p.If:
        return _choice(expr, box)
    parts = []
    for child in children(expr):
        part = value_range(child, box)
        if part is None:
            return None
        parts.append(part)
    if kind is p.Comparison:
        return _comparison(str(getattr(expr.operator, "value", expr.operator)), *parts)
    apply = _FUNCTIONS[expr.function.name] if kind is p.Call else _NODES[kind]
    assert apply is not None, f"{expr} is looked at above"
    found = apply(parts)
    return None if found is None or max(abs(found[0]), abs(found[1])).bit_length() > MOST_BITS else found


def form_range(form: Affine, box: Box) -> Interval:
    """Return an interval of integers that contains *form* for variables in *box*."""
    low = high = form.const
    for var, coefficient in form.terms:
        if isinstance(var, Floor):
            inner = form_range(Affine(var.terms, var.const), box)
            part = (inner[0] // var.den, inner[1] // var.den)
        else:
            part = box[var]
        least, most = part if coefficient > 0 else part[::-1]
        low, high = low + coefficient * least, high + coefficient * most
    return low, high


def _choice(expr: p.If, box: Box) -> Interval | None:
    condition = value_range(expr.condition, box)
    if condition is None:
        return None
    taken = [part for part, truth in ((expr.then, 1), (expr.else_, 0)) if condition[0] <= truth <= condition[1]]
    found = [value_range(part, box) for part in taken]
    known = [part for part in found if part is not None]
    return _hull(known) if len(known) == len(found) else None


def _hull(parts: Sequence[Interval]) -> Interval:
    return min(low for low, _ in parts), max(high for _, high in parts)


def _cast(expr: TypeCast, child: Interval | None) -> Interval | None:
    if child is None:
        return None
    low, high = integer_limits(np.dtype(expr.dtype))
    if low <= child[0] and child[1] <= high:
        return child
    if child[0] == child[1]:
        value = (child[0] - low) % (high - low + 1) + low
        return value, value
    return low, high


_TRUTH: Final[Mapping[str, Callable[[Interval, Interval], tuple[bool, bool]]]] = {
    "<": lambda a, b: (a[1] < b[0], a[0] < b[1]),
    "<=": lambda a, b: (a[1] <= b[0], a[0] <= b[1]),
    ">": lambda a, b: (a[0] > b[1], a[1] > b[0]),
    ">=": lambda a, b: (a[0] >= b[1], a[1] >= b[0]),
    "==": lambda a, b: (a[0] == a[1] == b[0] == b[1], a[0] <= b[1] and b[0] <= a[1]),
    "!=": lambda a, b: (a[1] < b[0] or b[1] < a[0], not a[0] == a[1] == b[0] == b[1]),
}


def _comparison(operator: str, left: Interval, right: Interval) -> Interval:
    always, ever = _TRUTH[operator](left, right)
    return int(always), int(ever)


def _sum(parts: Sequence[Interval]) -> Interval:
    return sum(low for low, _ in parts), sum(high for _, high in parts)


def _corners(apply: Callable[..., int], parts: Sequence[Interval]) -> Interval:
    values = [apply(*corner) for corner in product(*parts)]
    return min(values), max(values)


def _product(parts: Sequence[Interval]) -> Interval:
    total = parts[0]
    for part in parts[1:]:
        total = _corners(lambda a, b: a * b, (total, part))
    return total


_MOST_POWER: Final = 64


def _power(parts: Sequence[Interval]) -> Interval | None:
    base, (least, most) = parts
    widest = max(abs(base[0]), abs(base[1]), 2).bit_length()
    if least < 0 or most * widest > MOST_BITS:
        return None
    if least == most:
        found = _corners(lambda a, b: a**b, parts)
        return (0 if base[0] < 0 < base[1] else found[0], found[1]) if least and least % 2 == 0 else found
    return None if base[0] < 1 else (base[0] ** least, base[1] ** most)


def _floor_division(parts: Sequence[Interval]) -> Interval | None:
    low, high = parts[1]
    return None if low <= 0 <= high else _corners(lambda a, b: a // b, parts)


def _remainder(parts: Sequence[Interval]) -> Interval | None:
    (low, high), (least, most) = parts
    if least <= 0 <= most:
        return None
    if least == most and low // least == high // least:
        return (low % least, high % least) if least > 0 else _corners(lambda a: a % least, [(low, high)])
    if least > 0:
        return (low, high) if low >= 0 and high < least else (0, min(most - 1, high) if low >= 0 else most - 1)
    return (low, high) if high <= 0 and low > most else (least + 1, 0)


def _left_shift(parts: Sequence[Interval]) -> Interval | None:
    (low, high), (least, most) = parts
    if least < 0 or most + max(abs(low), abs(high)).bit_length() > MOST_BITS:
        return None
    return _corners(lambda a, b: a << b, parts)


def _right_shift(parts: Sequence[Interval]) -> Interval | None:
    least, most = parts[1]
    return None if least < 0 else _corners(lambda a, b: a >> min(b, MOST_BITS), (parts[0], (least, most)))


def _signs(part: Interval) -> list[Interval]:
    """Return the negative numbers of an interval, and the others."""
    low, high = part
    return [(low, -1), (0, high)] if low < 0 <= high else [part]


def _bits(apply: Callable[[int, int], int]) -> Callable[[Sequence[Interval]], Interval]:
    """Return the interval rule of a bitwise operation: known common upper bits, with any bits below."""

    def of_one_sign(parts: Sequence[Interval]) -> Interval:
        width = max((low ^ high).bit_length() for low, high in parts)
        total = reduce(apply, [low >> width for low, _ in parts])
        return total << width, ((total + 1) << width) - 1

    return lambda parts: _hull([of_one_sign(signs) for signs in product(*map(_signs, parts))])


def _and(parts: Sequence[Interval]) -> Interval:
    low, high = _bits(lambda a, b: a & b)(parts)
    natural = [most for least, most in parts if least >= 0]
    return (max(low, 0), min(high, *natural)) if natural else (low, high)


def _or(parts: Sequence[Interval]) -> Interval:
    low, high = _bits(lambda a, b: a | b)(parts)
    if all(least >= 0 for least, _ in parts):
        return max(low, *(least for least, _ in parts)), min(high, sum(most for _, most in parts))
    return low, high


def _not(parts: Sequence[Interval]) -> Interval:
    return ~parts[0][1], ~parts[0][0]


def _abs(parts: Sequence[Interval]) -> Interval:
    low, high = parts[0]
    return (0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _sign(parts: Sequence[Interval]) -> Interval:
    low, high = parts[0]
    return (low > 0) - (low < 0), (high > 0) - (high < 0)


def _min(parts: Sequence[Interval]) -> Interval:
    return min(low for low, _ in parts), min(high for _, high in parts)


def _max(parts: Sequence[Interval]) -> Interval:
    return max(low for low, _ in parts), max(high for _, high in parts)


def _all(parts: Sequence[Interval]) -> Interval:
    return prod(int(low > 0) for low, _ in parts), prod(int(high > 0) for _, high in parts)


def _any(parts: Sequence[Interval]) -> Interval:
    return int(any(low > 0 for low, _ in parts)), int(any(high > 0 for _, high in parts))


def _none(parts: Sequence[Interval]) -> Interval:
    return 1 - int(parts[0][1] != 0), 1 - int(parts[0][0] > 0)


_Range: TypeAlias = Callable[[Sequence[Interval]], Interval | None]
_NODES: Final[Mapping[Any, _Range | None]] = {
    p.Sum: _sum,
    p.Product: _product,
    p.Power: _power,
    p.FloorDiv: _floor_division,
    p.Remainder: _remainder,
    p.LeftShift: _left_shift,
    p.RightShift: _right_shift,
    p.BitwiseAnd: _and,
    p.BitwiseOr: _or,
    p.BitwiseXor: _bits(lambda a, b: a ^ b),
    p.BitwiseNot: _not,
    p.Min: _min,
    p.Max: _max,
    p.LogicalAnd: _all,
    p.LogicalOr: _any,
    p.LogicalNot: _none,
    p.Comparison: None,
    p.If: None,
}
_FUNCTIONS: Final[Mapping[str, _Range]] = {"abs": _abs, "min": _min, "max": _max, "sign": _sign}
