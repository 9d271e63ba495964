"""Integer constraint systems for point counts, and changes of variables that preserve the count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd

from polyloop.poly.affine import Affine, Floor
from polyloop.poly.polynomial import Polynomial
from polyloop.poly.sets import Row

__all__ = ["System", "changed", "determined", "dims_in", "is_false", "joined", "quotient", "tight"]


@dataclass
class System:
    """Linear constraints over ``dims``; other variables in the rows are parameters, and quotients of parameters."""

    dims: list[str]
    rows: list[Row]
    polynomial: Polynomial = field(default_factory=lambda: Polynomial.constant(1))

    def with_value(self, name: str, value: Affine) -> System:
        """Return the system with *value* for the dimension *name*."""
        rows = [Row(_with_value(row.form, name, value), row.is_equality) for row in self.rows]
        polynomial = self.polynomial
        if name in polynomial.names():
            polynomial = polynomial.substitute(name, Polynomial.of_affine(value))
        return System([x for x in self.dims if x != name], rows, polynomial)

    def coefficient_of(self, name: str) -> list[int]:
        """Return the factors of a dimension in the rows that have it."""
        return [factor for row in self.rows if (factor := row.form.coefficient(name))]


def _with_value(form: Affine, name: str, value: Affine) -> Affine:
    factor = form.coefficient(name)
    if not factor:
        return form
    return Affine(tuple(t for t in form.terms if t[0] != name), form.const).add(value, factor)


def dims_in(form: Affine, system: System) -> dict[str, int]:
    """Return the factors of the dimensions of *system* that occur in *form*."""
    dims = set(system.dims)
    return {var: factor for var, factor in form.terms if isinstance(var, str) and var in dims}


def tight(row: Row, system: System) -> Row | None:
    """Return *row* divided by the common divisor of its dimensions, exactly; None if it always holds."""
    form, is_equality = row
    if not form.terms:
        return None if form.const == 0 or (form.const > 0 and not is_equality) else row
    factors = dims_in(form, system)
    divisor = gcd(*factors.values()) if factors else 1
    if divisor <= 1 or is_equality:
        return row
    rest = quotient(Affine(tuple(t for t in form.terms if t[0] not in factors), form.const), divisor)
    return Row(Affine.make((name, k // divisor) for name, k in factors.items()).add(rest))


def quotient(form: Affine, den: int) -> Affine:
    """Return ``floor(form / den)``, with a positive number first in each quotient, and no quotient of a quotient."""
    total = Affine((), 0)
    whole = form.floordiv(den)
    for var, factor in whole.terms:
        total = total.add(_simple(var) if isinstance(var, Floor) else Affine.variable(var), factor)
    return Affine(total.terms, total.const + whole.const)


def _simple(var: Floor) -> Affine:
    inner, factor = var.terms[0]
    if isinstance(inner, Floor) and factor == 1 and len(var.terms) == 1:  # floor((floor(a/b) + c)/d)
        return quotient(Affine(inner.terms, inner.const + inner.den * var.const), inner.den * var.den)
    if factor < 0:  # floor(-a/b) is -floor((a + b - 1)/b)
        negated = Affine(var.terms, var.const).scale(-1)
        return Affine(negated.terms, negated.const + var.den - 1).floordiv(var.den).scale(-1)
    return Affine.variable(var)


def is_false(row: Row) -> bool:
    """Return whether *row* holds nowhere."""
    return not row.form.terms and (row.form.const < 0 or (row.is_equality and row.form.const != 0))


def changed(system: System, name: str, value: Affine) -> tuple[list[Row], Polynomial]:
    """Return rows and polynomial with *value*, in which *name* occurs, for *name*."""
    rows = [Row(_with_value(row.form, name, value), row.is_equality) for row in system.rows]
    polynomial = system.polynomial
    if name in polynomial.names():
        polynomial = polynomial.substitute(name, Polynomial.of_affine(value))
    return rows, polynomial


def determined(system: System) -> System | None:
    """Return *system* without one dimension ``q = floor(e / c)`` of coefficient 1 or -1 in other rows; else None."""
    used = system.polynomial.names()
    for name in system.dims:
        if name in used:
            continue
        rows = [row for row in system.rows if row.form.coefficient(name)]
        below = [row for row in rows if row.form.coefficient(name) < -1]
        above = [row for row in rows if row.form.coefficient(name) > 1]
        if len(below) != 1 or len(above) != 1:
            continue
        den = above[0].form.coefficient(name)
        form = below[0].form.add(Affine(((name, den),)))
        if above[0].form != Affine(((name, den),), den - 1).add(form, -1):
            continue
        kept = [_on_numerator(row, name, form, den) for row in system.rows if abs(row.form.coefficient(name)) <= 1]
        return System([x for x in system.dims if x != name], kept, system.polynomial)
    return None


def _on_numerator(row: Row, name: str, form: Affine, den: int) -> Row:
    """Return *row* with ``name = floor(form / den)`` replaced: ``q >= g`` is ``e >= den*g``."""
    factor = row.form.coefficient(name)
    if not factor:
        return row
    g = Affine(tuple(t for t in row.form.terms if t[0] != name), row.form.const).scale(den)
    return Row(g.add(form, factor).add(Affine((), den - 1 if factor < 0 else 0)))


def joined(system: System) -> System | None:
    """Return *system* with the two loops of a split as one dimension: ``x = c*outer + inner``, ``0 <= inner < c``.

    That is possible where every other row has them as multiples of ``c*outer + inner``, or the outer one alone, once.
    """
    used = system.polynomial.names()
    for inner in system.dims:
        own = [row for row in system.rows if row.form.coefficient(inner)]
        low, high = _box(own, inner)
        if low is None or high is None or inner in used:
            continue
        extent = high - low + 1
        rest = [row for row in own if len(row.form.terms) > 1]
        for outer in system.dims:
            if outer != inner and outer not in used and _is_split(system, outer, inner, extent, rest):
                return _as_one(system, outer, inner, extent, low)
    return None


def _box(rows: Sequence[Row], name: str) -> tuple[int | None, int | None]:
    lows = [-row.form.const for row in rows if row.form.terms == ((name, 1),)]
    highs = [row.form.const for row in rows if row.form.terms == ((name, -1),)]
    return max(lows, default=None), min(highs, default=None)


def _is_split(system: System, outer: str, inner: str, extent: int, rest: Sequence[Row]) -> bool:
    if extent < 1 or not rest:
        return False
    if any(row.form.coefficient(outer) != extent * row.form.coefficient(inner) for row in rest):
        return False
    alone = [row for row in system.rows if row.form.coefficient(outer) and not row.form.coefficient(inner)]
    return all(abs(row.form.coefficient(outer)) == 1 for row in alone)


def _as_one(system: System, outer: str, inner: str, extent: int, low: int) -> System:
    """Return *system* with ``inner`` standing for ``extent*outer + (inner - low)``."""
    rows = []
    for row in system.rows:
        form = row.form
        k, once = form.coefficient(inner), form.coefficient(outer)
        if k and once:  # k*(extent*outer + inner) + ..: inner is low more than what it stands for
            form = Affine(tuple(t for t in form.terms if t[0] != outer), form.const + k * low)
        elif k:
            continue
        elif once:  # outer >= g is x >= extent*g, outer <= g is x <= extent*g + extent - 1
            g = Affine(tuple(t for t in form.terms if t[0] != outer), form.const).scale(extent)
            form = g.add(Affine(((inner, once),), extent - 1 if once < 0 else 0))
        rows.append(Row(form, row.is_equality))
    return System([x for x in system.dims if x != outer], rows, system.polynomial)
