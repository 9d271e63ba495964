"""Shorter forms of counts in one parameter.

A sum over tiles comes out in cases: full tiles, and the last one.  Often one quasi-polynomial of few terms has the same
values.  It is found by solving for its factors, and proven: in each residue class of the parameter, and beyond the last
place where a condition changes, both are polynomials of known degree, which agree if they do at enough points; all
values before that place are compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import ceil, lcm, prod
from typing import Final

import islpy as isl

from polyloop.poly.affine import Affine, Floor, Var
from polyloop.poly.polynomial import Guarded, PiecewisePolynomial, Polynomial
from polyloop.poly.sets import Row

__all__ = ["shortened"]

_PARAM: Final = isl.dim_type.param
_MOST_POINTS: Final = 400
_FEW_TERMS: Final = 4
_MOST_ATOMS: Final = 4
_MOST_MONOMIALS: Final = 16
_GOLDEN: Final = 0.6180339887498949


def shortened(found: PiecewisePolynomial, context: isl.Set) -> PiecewisePolynomial:
    """Return *found* with as few terms as are seen to be enough, for the parameters in *context*."""
    names = found.names()
    terms = sum(len(piece.polynomial.terms) for piece in found.pieces)
    if len(names) != 1 or (terms <= _FEW_TERMS and not any(piece.rows for piece in found.pieces)):
        return found
    (name,) = names
    quotients = tuple(dict.fromkeys(_quotients(found)))
    if any(isinstance(var, Floor) for quotient in quotients for var, _ in quotient.terms):
        return found
    least = _least(context, name)
    points = None if least is None else _points(found, quotients, least)
    if points is None or len(points) > _MOST_POINTS:
        return found
    values = [found.value_at({name: point}) for point in points]
    degree = max(sum(power for _, power in monomial) for p in found.pieces for monomial in p.polynomial.terms)
    for atoms in ((), *combinations(quotients, 1), *combinations(quotients[:_MOST_ATOMS], 2)):
        polynomial = _fitted((name, *atoms), degree, points, values, name)
        if polynomial is not None and len(polynomial.terms) <= terms:
            return PiecewisePolynomial((Guarded((), polynomial),))
    return found


def _quotients(found: PiecewisePolynomial) -> Iterator[Floor]:
    for piece in found.pieces:
        yield from piece.polynomial.quotients()
        for row in piece.rows:
            yield from (var for var, _ in row.form.terms if isinstance(var, Floor))


def _least(context: isl.Set, name: str) -> int | None:
    """Return the least value of a parameter, None if it may have no other value than from there on, each."""
    position = context.find_dim_by_name(_PARAM, name)
    if position < 0:
        return None
    for other in range(context.dim(_PARAM) - 1, -1, -1):
        if other != position:
            context = context.project_out(_PARAM, other, 1)
    values = isl.Set.from_params(context).move_dims(isl.dim_type.set, 0, _PARAM, 0, 1)
    least = values.dim_min_val(0)
    if not least.is_int():
        return None
    number = least.to_python()
    return number if isl.Set(f"{{ [x] : x >= {number} }}").is_subset(values) else None


def _points(found: PiecewisePolynomial, quotients: Iterable[Floor], least: int) -> range | None:
    """Return the values of the parameter at which two counts must agree to be the same from *least* on."""
    period = lcm(1, *(quotient.den for quotient in quotients))
    last = least
    for piece in found.pieces:
        for row in piece.rows:
            change = _last_change(row)
            if change is None:
                return None
            last = max(last, change)
    degree = max(sum(power for _, power in monomial) for p in found.pieces for monomial in p.polynomial.terms)
    return range(least, last + period * (degree + 2) + 1)


def _last_change(row: Row) -> int | None:
    """Return a value beyond which a condition holds always or never, in each residue class; None for an equation."""
    slope, slack = Fraction(0), Fraction(abs(row.form.const))
    for var, factor in row.form.terms:
        if isinstance(var, Floor):
            slope += Fraction(factor * sum(k for _, k in var.terms), var.den)
            slack += abs(factor) * (1 + Fraction(abs(var.const), var.den))
        else:
            slope += factor
    if row.is_equality and slope:
        return None
    return 0 if not slope else ceil(slack / abs(slope)) + 1


def _fitted(
    variables: Sequence[Var], degree: int, points: Sequence[int], values: Sequence[int], name: str
) -> Polynomial | None:
    """Return the polynomial in *variables* that has *values* at *points*; None if there is none."""
    monomials: list[tuple[Var, ...]] = [
        found for power in range(degree + 1) for found in combinations_with_replacement(variables, power)
    ]
    if len(monomials) >= min(len(points), _MOST_MONOMIALS):
        return None
    table = []
    for point in points:
        known = {var: Affine.variable(var).evaluate({name: point}) for var in variables}
        table.append([prod(known[var] for var in monomial) for monomial in monomials])
    order = sorted(range(len(points)), key=lambda k: k * _GOLDEN % 1)  # from all residue classes early
    factors = _solved(([*map(Fraction, table[k]), Fraction(values[k])] for k in order), len(monomials))
    if factors is None:
        return None
    denominator = lcm(*(factor.denominator for factor in factors))
    numbers = [int(factor * denominator) for factor in factors]
    for row, value in zip(table, values, strict=True):
        if sum(a * b for a, b in zip(numbers, row, strict=True)) != denominator * value:
            return None
    total = Polynomial({})
    for monomial, factor in zip(monomials, factors, strict=True):
        part = Polynomial.constant(factor)
        for var in monomial:
            part *= Polynomial.variable(var)
        total += part
    return total


def _solved(rows: Iterable[list[Fraction]], count: int) -> list[Fraction] | None:
    """Return the solution of linear equations, unknowns that are free set to 0; None if there is seen to be none.

    No more equations are looked at than it takes.
    """
    pivots: list[tuple[int, list[Fraction]]] = []
    for equation in rows:
        row = equation
        for column, pivot in pivots:
            if row[column]:
                factor = row[column]
                row = [a - factor * b for a, b in zip(row, pivot, strict=True)]
        column = next((k for k in range(count) if row[k]), -1)
        if column < 0:
            if row[count]:
                return None
            continue
        row = [entry / row[column] for entry in row]
        pivots = [(c, [a - p[column] * b for a, b in zip(p, row, strict=True)] if p[column] else p) for c, p in pivots]
        pivots.append((column, row))
        if len(pivots) == count:
            break
    solution = [Fraction(0)] * count
    for column, row in pivots:
        solution[column] = row[count]
    return solution
