"""What the caller of a program must fulfil: assumptions, accesses inside arrays, 32-bit indices that are enough."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import islpy as isl
import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.context import Context
from polyloop.codegen.program import LaunchCheck
from polyloop.codegen.rows import Piece, in_order, rows_of
from polyloop.expr.dtypes import is_integer
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.kernel.kernel import Condition
from polyloop.kernel.layout import Strided
from polyloop.poly.affine import Affine, Floor, to_expression

__all__ = ["assumption_checks", "condition_check", "index_checks"]

_INT_MAX = 2**31 - 1


def _sides(form: Affine) -> tuple[Affine, Affine]:
    """Return the positive part of a form and the negated rest, so that ``form = left - right``."""
    positive = tuple((v, c) for v, c in form.terms if c > 0)
    negative = tuple((v, -c) for v, c in form.terms if c < 0)
    return Affine(positive, max(form.const, 0)), Affine(negative, max(-form.const, 0))


def _modulo(form: Affine) -> tuple[Affine, int] | None:
    """Return ``x`` and ``d`` if *form* is a multiple of ``x - d * floor(x / d)`` and a constant."""
    for var, coefficient in form.terms:
        if isinstance(var, Floor) and abs(coefficient) == var.den:
            sign = -coefficient // var.den
            inner = Affine(var.terms, var.const)
            if form.add(inner, -sign).terms == ((var, coefficient),):
                return inner, var.den
    return None


def _conditions(piece: Piece) -> list[Expression]:
    """Return the rows of a piece as comparisons of expressions."""
    left = [Affine(terms, const) for terms, const in piece.items()]
    found: list[Expression] = []
    while left:
        form = left.pop(0)
        opposite = form.scale(-1)
        operator = ">="
        if opposite in left:
            left.remove(opposite)
            operator = "=="
        modulo = _modulo(form) if operator == "==" else None
        if modulo is not None:
            inner, den = modulo
            sign = next(-c // den for v, c in form.terms if isinstance(v, Floor) and v.den == den)
            remainder = -sign * form.add(inner, -sign).const
            found.append(p.Comparison(p.Remainder(to_expression(inner), den), "==", remainder))
            continue
        greater, less = _sides(form)
        if operator == "==" and not greater.terms:
            greater, less = less, greater
        if greater.terms:
            found.append(p.Comparison(to_expression(greater), operator, to_expression(less)))
        else:
            found.append(p.Comparison(to_expression(less), "<=", to_expression(greater)))
    return found


def assumption_checks(assumptions: isl.Set) -> tuple[LaunchCheck, ...]:
    """Return the conditions that *assumptions* consists of, one check each."""
    pieces = _pieces(assumptions)
    if not pieces:
        return (LaunchCheck(False, "the assumptions contradict each other"),)
    if len(pieces) == 1:
        return tuple(LaunchCheck(c, f"the kernel assumes {show(c)}") for c in _conditions(pieces[0]))
    condition = _expression(assumptions)
    return (LaunchCheck(condition, f"the kernel assumes {show(condition)}"),)


def condition_check(condition: Condition) -> LaunchCheck:
    """Return the check that an access stays inside its array; its message states what it takes."""
    needs = f"{condition.access} stays inside {condition.array}, only if {show(_expression(condition.needs))}"
    if not condition.where.plain_is_universe():
        needs += f" (where {show(_expression(condition.where))})"
    return LaunchCheck(_expression(condition.set), needs, "out-of-bounds", "pass arrays and sizes that fit together")


def _pieces(domain: isl.Set) -> list[Piece]:
    return in_order(rows_of(basic, (), {}) for basic in domain.compute_divs().get_basic_sets())


def _expression(domain: isl.Set) -> Expression:
    """Return a parameter set as one expression; ISL is free to hold its pieces in any order."""
    found = [_all(_conditions(piece)) for piece in _pieces(domain)]
    cases = tuple(sorted(found, key=lambda case: (len(show(case)), show(case))))
    return cases[0] if len(cases) == 1 else p.LogicalOr(cases)


def _all(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions))


def _is_wide(argument: ValueArg) -> bool:
    """Return whether a parameter can be too large for int32 by its type."""
    dtype = argument.dtype
    return dtype is not None and is_integer(dtype) and not np.can_cast(dtype, np.int32)


def index_checks(
    arguments: Iterable[Argument], parameters: Collection[str], forms: Iterable[Affine], context: Context
) -> tuple[LaunchCheck, ...]:
    """Return the conditions under which 32-bit index arithmetic is exact.

    Parameters
    ----------
    arguments
        Arrays of more than 2^31 - 1 elements need wider indices.
    parameters
        Names of the arguments that are used in index arithmetic.
    forms
        Upper bounds, in the parameters, of what bounds and conditions compute on the way.
    context
        What is known of the parameters; a check that follows from it is left out.
    """
    checks = []
    for argument in arguments:
        if isinstance(argument, ValueArg) and argument.name in parameters and _is_wide(argument):
            condition = p.Comparison(p.Variable(argument.name), "<=", _INT_MAX)
            checks.append(LaunchCheck(condition, f"{argument.name} does not fit into 32 bits", "index-overflow"))
        if isinstance(argument, ArrayArg) and argument.shape and argument.strides:
            for count in _extents(argument):
                if isinstance(count, int) and count <= _INT_MAX:
                    continue
                message = f"'{argument.name}' has more than 2^31 - 1 elements"
                checks.append(LaunchCheck(p.Comparison(count, "<=", _INT_MAX), message, "index-overflow"))
    for form in _dominating(forms):
        assert form.names() <= set(parameters), f"'{show(to_expression(form))}' holds more than parameters"
        row = Affine((), _INT_MAX).add(form, -1)
        if not context.implies(row):
            message = f"{show(to_expression(form))} does not fit into 32 bits"
            condition = p.Comparison(to_expression(form), "<=", _INT_MAX)
            checks.append(LaunchCheck(condition, message, "index-overflow"))
    return tuple({check.condition: check for check in reversed(checks)}.values())[::-1]


def _extents(array: ArrayArg) -> list[Expression]:
    """Return expressions of which the greatest is the number of elements that *array* spans, its offset included."""
    assert array.shape is not None, f"'{array.name}' has no shape"
    assert array.strides is not None, f"'{array.name}' has no strides"
    tags = array.dim_tags if isinstance(array.dim_tags, tuple) else ()
    signed = any(isinstance(tag, Strided) for tag in tags)
    steps = [_magnitude(stride) if signed else stride for stride in array.strides]
    spans = [_product(extent, step) for extent, step in zip(array.shape, steps, strict=True)]
    if array.is_packed:
        spans = spans[:1] if array.order == "C" else spans[-1:]
    if not isinstance(array.offset, int) or array.offset:
        spans.append(array.offset)
    return [_sum(spans)]


def _magnitude(stride: Expression) -> Expression:
    """Return the absolute value of a stride."""
    return abs(stride) if isinstance(stride, int) else p.Max((stride, p.Product((-1, stride))))


def _product(a: Expression, b: Expression) -> Expression:
    factors = [f for e in (a, b) for f in (e.children if isinstance(e, p.Product) else (e,)) if not _is_one(f)]
    numbers = [int(f) for f in factors if isinstance(f, int)]
    others = [f for f in factors if not isinstance(f, int)]
    number = 1
    for factor in numbers:
        number *= factor
    if not others:
        return number
    parts = others if number == 1 else [number, *others]
    return parts[0] if len(parts) == 1 else p.Product(tuple(parts))


def _is_one(expr: Expression) -> bool:
    return type(expr) is int and expr == 1


def _sum(parts: Sequence[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else p.Sum(tuple(parts))


def _dominating(forms: Iterable[Affine]) -> list[Affine]:
    """Drop forms that are nowhere greater than another, for nonnegative parameters."""
    left = list(dict.fromkeys(forms))
    kept: list[Affine] = []
    for form in sorted(left, key=lambda form: (-sum(c for _, c in form.terms), -form.const)):
        if not any(_at_most(form, other) for other in kept):
            kept.append(form)
    return kept


def _at_most(small: Affine, large: Affine) -> bool:
    have = dict(large.terms)
    return small.const <= large.const and all(c <= have.get(v, 0) for v, c in small.terms)
