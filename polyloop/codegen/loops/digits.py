"""Digits of the thread number: variables in the prologue of a device function, quotients if axes are loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from polyloop.codegen.expressions.linear import form_text
from polyloop.codegen.language import Language
from polyloop.codegen.loops.context import Context
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.mapping.collective_shape import meeting_of
from polyloop.mapping.mixed_radix import Digit, digit_form
from polyloop.poly.affine import Affine, to_expression
from polyloop.poly.axes import digit_axis, digit_parts, is_block_axis, loops_among, thread_axis
from polyloop.poly.sets import Row, add_rows, map_from_forms, universe
from polyloop.schedule.plan import Schedule, Statement

__all__ = ["digit_lines", "digits_of", "without_digits"]


def digits_of(statements: Iterable[Statement]) -> dict[str, Digit]:
    """Return the digits of the thread number in *statements*, by the name of their axis."""
    found: dict[str, Digit] = {}
    for statement in statements:
        found.update(statement.digits)
    return dict(sorted(found.items(), key=lambda entry: entry[1]))


def without_digits(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* over ``l.0`` to ``l.2`` in place of digits, if these become loops."""
    digits = {} if language.has_axes else digits_of(schedule.statements.values())
    if not digits:
        return schedule
    block = max((launch.local_size for launch in schedule.launches), default=())
    schedule, block = _along_digits(schedule, block)
    sizes = {thread_axis(n): size for n, size in enumerate(block)}
    places = {axis: digit_form(digit, sizes) for axis, digit in digits.items()}
    named = tuple((name, form.substitute(places)) for name, form in schedule.indices.named)
    return replace(
        schedule,
        statements={name: _over_threads(s, sizes) for name, s in schedule.statements.items()},
        indices=replace(schedule.indices, named=named),
    )


def _along_digits(schedule: Schedule, block: tuple[int, ...]) -> tuple[Schedule, tuple[int, ...]]:
    """Return *schedule* with an axis for each digit along which threads combine values, and the threads along each."""
    together = {name: own for name, s in schedule.statements.items() if (own := s.collective) is not None}
    parts = {axis: part for own in together.values() for axis in own.across if (part := digit_parts(axis)) is not None}
    if not parts:
        return schedule, block
    spans = meeting_of(block, tuple(parts), prod(block)).spans
    number = {span.axis: thread_axis(n) for n, span in enumerate(spans)}
    names = {axis: number[digit_axis(*part)] for axis, part in parts.items()}
    actions = {name: replace(own, across=tuple(names[axis] for axis in own.across)) for name, own in together.items()}
    statements = {name: replace(schedule.statements[name], action=own) for name, own in actions.items()}
    sizes = tuple(span.extent for span in spans)
    launches = tuple(replace(launch, local_size=sizes) for launch in schedule.launches)
    return replace(schedule, launches=launches, statements={**schedule.statements, **statements}), sizes


def _over_threads(statement: Statement, sizes: Mapping[str, int]) -> Statement:
    """Return *statement* over ``l.0`` to ``l.2`` in place of digits."""
    if not statement.digits:
        return statement
    others = [dim for dim in statement.dims if dim not in statement.digits]
    dims = (*filter(is_block_axis, others), *sizes, *loops_among(others))
    forms = {axis: digit_form(digit, sizes) for axis, digit in statement.digits.items()}
    images = [forms.get(dim) or Affine.variable(dim) for dim in statement.dims]
    whole = universe(statement.domain, dims)
    domain = map_from_forms(whole, dims, images).intersect_range(statement.domain).domain()
    rows = [row for axis, size in sizes.items()
            for row in (Row(Affine.variable(axis)), Row(Affine(((axis, -1),), size - 1)))]  # fmt: skip
    names = {axis: to_expression(form) for axis, form in forms.items()}
    return replace(
        statement,
        dims=dims,
        domain=add_rows(domain, dims, rows),
        lhs=substitute(statement.lhs, names),
        rhs=substitute(statement.rhs, names),
        predicates=tuple(substitute(part, names) for part in statement.predicates),
    )


def _digit_text(digit: Digit, sizes: Mapping[str, int], scope: Scope, context: Context) -> Code:
    """Return the expression of a digit: a quotient of the thread number, modulo the extent unless it is the highest."""
    whole = digit_form(Digit(digit.stride, -(-prod(sizes.values()) // digit.stride)), sizes)
    form = digit_form(digit, sizes)
    if form == whole or digit.stride == 1:
        return form_text(form, scope, context)
    return c.binary(c.MODULO, form_text(whole, scope, context), c.integer(digit.extent))


def digit_lines(digits: Mapping[str, Digit], sizes: Mapping[str, int], scope: Scope) -> list[str]:
    """Return the definitions of the digits that the text uses."""
    context = Context().add(
        row for axis, size in sizes.items() for row in (Affine(((axis, 1),), 0), Affine(((axis, -1),), size - 1))
    )
    parts = [
        f"{scope.values[axis]} = {_digit_text(digit, sizes, scope, context)}"
        for axis, digit in digits.items()
        if axis in scope.used
    ]
    return [f"    const {scope.index_type} {', '.join(parts)};"] if parts else []
