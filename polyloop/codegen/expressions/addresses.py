"""Subscripts and addresses: integer expressions in natural order, and sums of strides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.expressions.linear import form_order, join_terms
from polyloop.codegen.expressions.magnitude import Sum
from polyloop.codegen.expressions.renderer import Renderer
from polyloop.codegen.expressions.spans import factors_of, spanned
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.codegen.tree.indices import is_mark
from polyloop.expr.constants import number_of
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import children, rebuild_changed, variables
from polyloop.poly.affine import Affine, Floor, affine_in, affine_of, to_expression

__all__ = ["address", "index_text", "with_named"]


def address(
    r: Renderer,
    indices: Sequence[Expression],
    strides: Sequence[Expression],
    offset: Expression,
    shape: Sequence[Expression],
    whole: Callable[[], Expression] | None = None,
) -> Code:
    """Return the address of an element [elements]; *whole* returns an upper bound of addresses."""
    whole = whole or partial(spanned, shape, strides, offset)
    if len(indices) > 1 and any(map(_divides, indices)) and (joined := _in_one_piece(indices, strides)) is not None:
        indices, shape = joined, [whole()] * len(shape)
    zero = c.integer(0)
    first = zero if type(offset) is int and not offset else index_text(r, offset, offset)
    out: list[Code] = [] if first == zero else [first]
    for index, stride, extent in zip(indices, strides, shape, strict=bool(indices)):
        if type(index) is int and type(stride) is int:
            index, stride = index * stride, 1  # noqa: PLW2901 - a number is written as one
        elif type(index) is int and index == 1:
            index, stride = stride, 1  # noqa: PLW2901 - once a stride is the stride
        text = index_text(r, index, extent, whole if out and type(stride) is int and stride == 1 else None)
        number = c.integer_of(text)
        if number == 0:
            continue
        if number is not None and number > 0 and type(stride) is int:
            text, stride = c.integer(number * stride), 1  # noqa: PLW2901 - likewise
        elif number == 1:
            text, stride = index_text(r, stride, stride), 1  # noqa: PLW2901 - likewise
        if type(stride) is not int or stride != 1:
            text = c.product(text, index_text(r, stride, stride))
        out.append(text)
    return c.total(out) if out else zero


def _divides(expr: Expression) -> bool:
    """Return True if there is a quotient or a remainder in a subscript."""
    return isinstance(expr, p.FloorDiv | p.Remainder) or any(
        map(_divides, children(expr) if isinstance(expr, p.Sum | p.Product) else ())
    )


def _in_one_piece(indices: Sequence[Expression], strides: Sequence[Expression]) -> list[Expression] | None:
    """Return subscripts with the same address but without quotients that cancel in it, None if none does.

    ``a[f // 9, f % 9]`` of rows of 9 elements is ``a[0, f]``.
    """
    parts = zip(indices, strides, strict=True)
    forms = [affine_of(index) if isinstance(stride, int) else None for index, stride in parts]
    factors: dict[Floor, int] = {}
    for form, stride in zip(forms, strides, strict=True):
        for var, coefficient in form.terms if form is not None and isinstance(stride, int) else ():
            if isinstance(var, Floor):
                factors[var] = factors.get(var, 0) + coefficient * stride
    gone = {var for var, factor in factors.items() if not factor}
    if not gone:
        return None
    return [
        index if form is None else to_expression(Affine(tuple(t for t in form.terms if t[0] not in gone), form.const))
        for index, form in zip(indices, forms, strict=True)
    ]


def index_text(
    r: Renderer, expr: Expression, limit: Expression | None = None, whole: Callable[[], Expression] | None = None
) -> Code:
    """Return an integer expression with its linear part in natural order.

    Parameters
    ----------
    limit
        Extent of the axis, if the expression is a subscript of an array.
    whole
        Function that returns the number of elements of the array, if the terms are added one by one to an address.
    """
    opaque: list[tuple[Expression, int]] = []
    linear: dict[str, int] = {}
    const = _collect(r, with_named(r, with_numbers(r, expr)), 1, opaque, linear)
    const += _rejoined(r, opaque, linear)
    ordered: list[tuple[Expression, int]] = [
        *((node, c) for node, c in opaque if c),
        *sorted(((name, c) for name, c in linear.items() if c), key=form_order),
    ]
    if any(c > 0 for _, c in ordered):
        ordered.sort(key=lambda term: term[1] < 0)
    if len(ordered) + bool(const) > 1 or opaque or (ordered and abs(ordered[0][1]) > 1):
        r.scope.findings.magnitudes.record(Sum(tuple(ordered), const, limit), r.scope.types_of_names)
        if whole is not None and (const < 0 or any(c < 0 for _, c in ordered)):
            item = Sum(tuple(ordered), const, whole(), is_added=True)
            r.scope.findings.magnitudes.record(item, r.scope.types_of_names)
    return join_terms(ordered, const, partial(_atom, r))


def with_named(r: Renderer, expr: Expression) -> Expression:
    """Return *expr* with sums replaced by named indices."""
    is_sum = r.scope.indices.is_open and type(expr) in (p.Sum, p.Product)
    form = affine_in(expr, r.scope.values.keys()) if is_sum else None
    if form is None:
        return expr
    rest = r.scope.indices.take(form)
    return expr if rest is form else to_expression(rest)


def with_numbers(r: Renderer, expr: Expression) -> Expression:
    """Return an index with numbers for the variables that have one value here, added and multiplied.

    C would compute what is left of ``2*i + 1`` as ``int``, which it may not fit into.
    """
    values = r.scope.values
    numbers = {name: value for name in variables(expr) if isinstance(value := values.get(name), int)}
    return _numbered(expr, numbers) if numbers else expr


def _numbered(expr: Expression, numbers: Mapping[str, int]) -> Expression:
    """Return *expr* with *numbers* for variables, but not in subscripts of arrays, which are indices of their own."""
    if type(expr) is p.Variable:
        return numbers.get(expr.name, expr)
    if type(expr) is p.Subscript or not isinstance(expr, p.ExpressionNode):
        return expr
    old = children(expr)
    new = tuple([_numbered(child, numbers) for child in old])
    found = rebuild_changed(expr, old, new)
    form = affine_of(found) if found is not expr and type(expr) in (p.Sum, p.Product) else None
    return found if form is None or form.terms else form.const


def _atom(r: Renderer, atom: Expression) -> Code:
    return r.scope.value(atom) if isinstance(atom, str) else r.render_as(r.indices, atom, r.scope.index_dtype)


def _collect(
    r: Renderer, expr: Expression, factor: int, opaque: list[tuple[Expression, int]], linear: dict[str, int]
) -> int:
    """Add the terms of *factor* times *expr* to *linear* and *opaque* (other nodes); return its constant."""
    known = number_of(expr)
    if known is not None:
        return factor * known
    if type(expr) is p.Sum:
        return sum(_collect(r, child, factor, opaque, linear) for child in expr.children)
    if type(expr) is p.Variable and (expr.name in r.scope.values or is_mark(expr.name)):
        linear[expr.name] = linear.get(expr.name, 0) + factor
        return 0
    if type(expr) is p.Product:
        factors = [*factors_of(expr)]
        numbers = [int(c) for c in factors if isinstance(c, int | np.integer)]
        others = [c for c in factors if not isinstance(c, int | np.integer)]
        if len(others) <= 1:
            factor *= prod(numbers)
            return _collect(r, others[0], factor, opaque, linear) if others else factor
        if len(numbers) > 1:  # 2*w*(2*h) is 4*w*h
            expr = p.Product((prod(numbers), *others))
    if isinstance(expr, p.Remainder) and (simpler := _simpler_remainder(r, expr)) is not None:
        return _collect(r, simpler, factor, opaque, linear)
    opaque.append((expr, factor))
    return 0


def _rejoined(r: Renderer, opaque: list[tuple[Expression, int]], linear: dict[str, int]) -> int:
    """Put ``i`` in the place of ``4*(i // 4) + i % 4``; return the constant that it brings."""
    const = 0
    for rest, factor in [*opaque]:
        if isinstance(rest, p.Remainder) and isinstance(rest.denominator, int) and rest.denominator > 0:
            whole = p.FloorDiv(rest.numerator, rest.denominator), factor * rest.denominator
            if whole in opaque:
                opaque.remove(whole)
                opaque.remove((rest, factor))
                const += _collect(r, rest.numerator, factor, opaque, linear)
    return const


def _simpler_remainder(r: Renderer, expr: p.Remainder) -> Expression | None:
    """Return a remainder with multiples of its divisor removed, ``(i + 2) % 3`` for ``(i - 1) % 3``, or None."""
    form, divisor = affine_of(expr.numerator), expr.denominator
    if form is None or type(divisor) is not int or divisor <= 0:
        return None
    rest = Affine(tuple((v, c) for v, c in form.terms if c % divisor), form.const % divisor)
    if not rest.terms:
        return rest.const
    below = Affine((), divisor - 1).add(rest, -1)
    if rest.names() <= r.scope.values.keys() and r.is_natural(rest) and r.is_natural(below):
        return to_expression(rest)
    is_simpler = len(rest.terms) < len(form.terms) or form.const < 0
    return p.Remainder(to_expression(rest), divisor) if is_simpler else None
