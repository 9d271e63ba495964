"""Loop bounds from rows: lower and upper bounds, strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final, TypeAlias

import islpy as isl

from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import Divisibility, Piece, hull, mentions, projected, rewrite, tightened
from polyloop.poly.affine import Affine, Floor, Var
from polyloop.schedule.plan import Statement

__all__ = ["Bound", "Bounds", "Stride", "bounds_of", "first_value", "limit_value", "minimal", "stride_of"]

_PARAM: Final = isl.dim_type.param
_IN: Final = isl.dim_type.in_
_DIV: Final = isl.dim_type.div

Bound: TypeAlias = tuple[tuple[Affine, ...], ...]
"""Alternatives, each a conjunction of forms.

A lower bound is the minimum over the alternatives of the maximum of its forms; an exclusive upper bound is the maximum
over the alternatives of the minimum of its forms.
"""


@dataclass(frozen=True)
class Stride:
    """Stride of a loop, whose values are ``offset + step * z``."""

    step: int
    offset: Affine

    def row(self, iname: str) -> Affine:
        """Return the equivalent row ``step * floor((i - offset) / step) - (i - offset) >= 0``."""
        distance = Affine.variable(iname).add(self.offset, -1)
        return distance.floordiv(self.step).scale(self.step).add(distance, -1)

    def align(self, form: Affine) -> Affine:
        """Return the least value of the loop that is at least *form*."""
        steps = form.add(self.offset, -1).add(Affine((), self.step - 1)).floordiv(self.step)
        return self.offset.add(steps, self.step)


@dataclass(frozen=True)
class Bounds:
    """Bounds of a loop, and the rows on its variable that they enforce."""

    lower: Bound
    upper: Bound
    lower_rows: tuple[Affine, ...]
    upper_rows: tuple[Affine, ...]
    stride: Stride | None = None

    @property
    def facts(self) -> tuple[Affine, ...]:
        """Rows that hold inside of the loop."""
        return self.lower_rows + self.upper_rows

    def forms(self) -> list[Affine]:
        """Return every form in the bounds."""
        return [form for bound in (self.lower, self.upper) for forms in bound for form in forms]

    def constants(self) -> tuple[int, int] | None:
        """Return first value and exclusive limit if both are numbers and the step is 1."""
        if self.stride is not None or any(form.terms for form in self.forms()):
            return None
        return (
            min(max(form.const for form in forms) for forms in self.lower),
            max(min(form.const for form in forms) for forms in self.upper),
        )


def first_value(row: Affine, name: str) -> Affine:
    """Return the least value of *name* that a row with a positive coefficient allows."""
    coefficient = row.coefficient(name)
    rest = Affine(tuple((v, -c) for v, c in row.terms if v != name), -row.const)
    return rest.add(Affine((), coefficient - 1)).floordiv(coefficient)


def limit_value(row: Affine, name: str) -> Affine:
    """Return one more than the greatest value of *name* that a row with a negative coefficient allows."""
    coefficient = -row.coefficient(name)
    rest = Affine(tuple((v, c) for v, c in row.terms if v != name), row.const)
    return rest.add(Affine((), coefficient)).floordiv(coefficient)


def minimal(rows: Sequence[Affine], context: Context) -> list[Affine]:
    """Return *rows* without those that follow from *context* and the other rows."""
    left = list(rows)
    for row in sorted(rows, key=lambda row: len(row.terms)):
        if len(left) < 2:
            break
        others = [other for other in left if other is not row]
        if context.add(others).implies(row):
            left = others
    return left


def _on(piece: Piece, name: str) -> list[Affine]:
    """Return the rows that bound *name*."""
    rows = []
    for terms, const in piece.items():
        names = [var for var, _ in terms]
        if name in names and not any(type(var) is not str and mentions(var, name) for var in names):
            rows.append(Affine(terms, const))
    return rows


def _relaxed(piece: Piece, name: str) -> list[Affine]:
    """Return rows on *name* without floors around it, implied by the rows of *piece* that have such floors.

    They follow from ``x - d < d * floor(x / d) <= x``.
    """
    found = []
    for terms, const in piece.items():
        row = Affine(terms, const)
        while inside := [(v, c) for v, c in row.terms if isinstance(v, Floor) and mentions(v, name)]:
            floor, coefficient = inside[0]
            assert isinstance(floor, Floor), "only floors mention names inside"
            rest = Affine(tuple(term for term in row.terms if term[0] != floor), row.const)
            # d * floor(x / d) is at most x, and at least x - d + 1 for integers
            numerator = Affine(floor.terms, floor.const - (floor.den - 1 if coefficient < 0 else 0))
            row = tightened(rest.scale(floor.den).add(numerator, coefficient))
        if row.coefficient(name):
            found.append(row)
    return found


def _side(piece: Piece, name: str, context: Context, *, is_lower: bool) -> tuple[Affine, ...]:
    """Return the bounds on one side of *name* in one piece."""
    rows = _minimal_sides(_on(piece, name), name, context)
    return _bound(rows, name, is_lower=is_lower) or _bound(_relaxed(piece, name), name, is_lower=is_lower)


def _bound(rows: Iterable[Affine], name: str, *, is_lower: bool) -> tuple[Affine, ...]:
    if is_lower:
        return tuple(first_value(row, name) for row in rows if row.coefficient(name) > 0)
    return tuple(limit_value(row, name) for row in rows if row.coefficient(name) < 0)


def bounds_of(
    name: str, pieces: Sequence[Piece], context: Context, stride: Stride | None
) -> Bounds | None:
    """Return the bounds of loop *name* over the union of *pieces*, None if it is unbounded.

    Rows that all pieces have become one bound, which is then known inside the loop.  Without such rows, the bound is
    the extreme over the pieces, and the statements need guards.
    """
    common = _minimal_sides(_on(hull(pieces), name), name, context)
    lower_rows = tuple(row for row in common if row.coefficient(name) > 0)
    upper_rows = tuple(row for row in common if row.coefficient(name) < 0)
    sides: list[Bound] = []
    for rows, is_lower in ((lower_rows, True), (upper_rows, False)):
        if rows:
            sides.append((_bound(rows, name, is_lower=is_lower),))
            continue
        alternatives = dict.fromkeys(_side(piece, name, context, is_lower=is_lower) for piece in pieces)
        if not alternatives or () in alternatives:
            return None
        sides.append(_extremes(tuple(alternatives), context, is_lower=is_lower))
    lower, upper = sides
    if len(lower) == 1 and not lower_rows:
        lower_rows = tuple(Affine.variable(name).add(form, -1) for form in lower[0])
    if len(upper) == 1 and not upper_rows:
        upper_rows = tuple(form.add(Affine.variable(name), -1).add(Affine((), -1)) for form in upper[0])
    if stride is not None:
        lower = tuple(tuple(stride.align(form) for form in forms) for forms in lower)
        if len(lower) == 1:
            lower_rows += tuple(Affine.variable(name).add(form, -1) for form in lower[0])
    return Bounds(lower, upper, lower_rows, upper_rows, stride)


def _extremes(alternatives: Bound, context: Context, *, is_lower: bool) -> Bound:
    """Return *alternatives* without those that another one dominates."""
    sign = 1 if is_lower else -1

    def is_beyond(other: tuple[Affine, ...], forms: tuple[Affine, ...]) -> bool:
        """Return True if *other* is always at least as extreme as *forms*, so that these are redundant."""
        return all(
            any(context.implies(tightened(form.add(inner, -1).scale(sign))) for form in forms) for inner in other
        )

    left = list(alternatives)
    for forms in alternatives:
        if any(is_beyond(other, forms) for other in left if other is not forms):
            left.remove(forms)
    return tuple(left)


def _minimal_sides(rows: Sequence[Affine], name: str, context: Context) -> list[Affine]:
    """Return *rows* without redundant ones, but with at least one lower and one upper row, if there were any."""
    left = list(rows)
    for row in sorted(rows, key=lambda row: -len(row.terms)):
        is_lower = row.coefficient(name) > 0
        others = [other for other in left if other is not row]
        if len(left) <= 2 or not any((other.coefficient(name) > 0) == is_lower for other in others):
            continue
        if context.add(others).implies(row):
            left = others
    return left


def stride_of(
    name: str, statements: Iterable[Statement], pieces: Sequence[Piece], known: frozenset[str],
    divisibility: Divisibility,
) -> Stride | None:  # fmt: skip
    """Return the stride that all statements in loop *name* have in common, None if it is 1."""
    if not any(mentions(v, name) for piece in pieces for terms in piece for v, _ in terms):
        return None
    total: Stride | None = None
    for statement in statements:
        found = _own_stride(name, statement, known, divisibility)
        if found is None:
            return None
        total = found if total is None else _common_stride(total, found)
        if total is None:
            return None
    return total


def _common_stride(a: Stride, b: Stride) -> Stride | None:
    distance = a.offset.add(b.offset, -1)
    if distance.terms:
        return None
    step = gcd(a.step, b.step, distance.const)
    return Stride(step, a.offset) if step > 1 else None


def _own_stride(name: str, statement: Statement, known: frozenset[str], divisibility: Divisibility) -> Stride | None:
    from_domain = [dim for dim in statement.dims if dim in known]
    if name not in from_domain:
        return None
    info = projected(statement, from_domain).get_stride_info(from_domain.index(name))
    step = info.get_stride().to_python()
    if step <= 1:
        return None
    form = _plain_form(info.get_offset(), from_domain)
    return None if form is None else Stride(step, rewrite(form, divisibility))


def _plain_form(aff: isl.Aff, dims: Sequence[str]) -> Affine | None:
    """Return an ``isl.Aff`` with integer coefficients and no floors as a form."""
    if aff.dim(_DIV) or aff.get_denominator_val().to_python() != 1:
        return None
    space = aff.get_domain_space()
    names = ([str(space.get_dim_name(_PARAM, i)) for i in range(aff.dim(_PARAM))], dims)
    terms: list[tuple[Var, int]] = [
        (name, aff.get_coefficient_val(kind, position).to_python())
        for kind, group in zip((_PARAM, _IN), names, strict=True)
        for position, name in enumerate(group)
    ]
    return Affine.make(terms, aff.get_constant_val().to_python())
