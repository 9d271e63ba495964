"""Point counts of parametric sets, as piecewise quasi-polynomials in the parameters.

Dimensions are summed away one by one: a polynomial between affine bounds by Faulhaber's formula, a choice between
bounds by cases.  Quotients become dimensions of their own, equations are eliminated by unimodular changes of variables,
and the two loops of a split are one dimension again.  Where no dimension is left whose bounds are whole, another one is
divided by its residues.  That covers every set in principle; past a number of cases it is left to Barvinok's algorithm
(``islpy-barvinok``), if that is installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import count as numbers
from itertools import product
from math import gcd, lcm, prod
from typing import Final, TypeAlias

import islpy as isl

from polyloop.poly.affine import Affine, Floor, Var
from polyloop.poly.barvinok import by_barvinok, has_barvinok
from polyloop.poly.polynomial import ZERO, Guarded, PiecewisePolynomial, Polynomial, power_sum
from polyloop.poly.sets import Row, add_rows, apart, rows_of, sample_set
from polyloop.poly.shorten import shortened
from polyloop.poly.system import System, changed, determined, dims_in, is_false, joined, quotient, tight

__all__ = ["UncountableError", "count_points"]

_SET: Final = isl.dim_type.set
_MOST_CASES: Final = 600
"""Cases that one count may be divided into."""


class UncountableError(Exception):
    """The points of a set are not counted here: ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def count_points(domain: isl.Set, context: isl.Set | None = None) -> PiecewisePolynomial:
    """Return the number of points of *domain*.

    Parameters
    ----------
    context
        Parameters that matter; conditions that hold for all of them are left out of the result.

    Raises
    ------
    UncountableError
        It is unbounded, or too intricate, and ``islpy-barvinok`` is not installed.
    """
    if context is not None:
        domain = domain.intersect_params(context)
    if domain.is_empty():
        return ZERO
    for position in range(domain.dim(_SET)):
        if not domain.dim_is_bounded(_SET, position):
            raise UncountableError("it is unbounded")
    try:
        return _Counter(domain, context).count()
    except UncountableError:
        if not has_barvinok():
            raise
        return by_barvinok(domain, context)



class _Counter:
    """One count."""

    def __init__(self, domain: isl.Set, context: isl.Set | None) -> None:
        self.domain = domain
        every = isl.Set.universe(domain.get_space().params())
        self.context = every if context is None else every.intersect(context)
        self.fresh = (f"#{number}" for number in numbers())
        self.cases = 0
        self.remainders: dict[Floor, int | None] = {}

    def count(self) -> PiecewisePolynomial:
        dims = [next(self.fresh) for _ in range(self.domain.dim(_SET))]
        found = [self.basic(basic, dims) for basic in apart(self.domain.coalesce())]
        products = self.merged([product for product in found if product is not None])
        return self.tidied(PiecewisePolynomial.total(map(_multiplied, products)))

    def basic(self, basic: isl.BasicSet, dims: Sequence[str]) -> _Product | None:
        """Return the number of points as factors, one for each group of dimensions; None for 0."""
        system = self.linear(rows_of(basic.detect_equalities().remove_redundancies(), dims), dims)
        solved = self.solved(system)
        if solved is None:
            return None
        factors: dict[frozenset[str], PiecewisePolynomial] = {}
        for part in _components(solved):
            count = PiecewisePolynomial.total(self.summed(part))
            if count.is_zero:
                return None
            own = frozenset(part.dims).intersection(dims)
            count = shortened(count, self.context)
            factors[own] = count if own not in factors else factors[own] * count
        return factors or {frozenset(): PiecewisePolynomial.of(1)}

    def merged(self, products: list[_Product]) -> list[_Product]:
        """Return *products* with sums in place of those that differ in one factor only."""
        done: list[_Product] = []
        while products:
            product = products.pop()
            for other in done:
                apart_in = [group for group in product if product[group] != other.get(group)]
                if product.keys() == other.keys() and len(apart_in) <= 1:
                    group = apart_in[0] if apart_in else next(iter(product))
                    done.remove(other)
                    products.append({**other, group: shortened(other[group] + product[group], self.context)})
                    break
            else:
                done.append(product)
        return done

    def linear(self, rows: Iterable[Row], dims: Sequence[str]) -> System:
        """Return the system of *rows*, with a dimension more for each quotient that depends on dimensions."""
        system = System(list(dims), [])
        known: dict[Floor, str] = {}

        def flat(form: Affine) -> Affine:
            total = Affine((), form.const)
            for var, factor in form.terms:
                total = total.add(Affine.variable(dimension(var) if isinstance(var, Floor) else var), factor)
            return total

        def dimension(var: Floor) -> Var:
            if Affine.variable(var).names().isdisjoint(dims):
                return var
            if var not in known:
                inner = flat(Affine(var.terms, var.const))
                name = known[var] = next(self.fresh)
                rest = inner.add(Affine(((name, -var.den),)))
                system.dims.append(name)
                system.rows += [Row(rest), Row(Affine((), var.den - 1).add(rest, -1))]
            return known[var]

        system.rows += [Row(flat(row.form), row.is_equality) for row in rows]
        return system

    # {{{ equations

    def solved(self, system: System) -> System | None:
        """Return *system* without equations over dimensions; None if it has no points."""
        while True:
            system.rows = list(dict.fromkeys(tightened for row in system.rows if (tightened := tight(row, system))))
            if any(is_false(row) for row in system.rows):
                return None
            equation = next((r for r in system.rows if r.is_equality and dims_in(r.form, system)), None)
            if equation is None:
                return system
            system = self.without(system, equation)

    def without(self, system: System, equation: Row) -> System:
        """Return *system* with *equation* solved for a dimension, or a step nearer to that."""
        factors = dims_in(equation.form, system)
        name, factor = min(factors.items(), key=lambda entry: abs(entry[1]))
        # A unimodular change, name := name - (k // factor) * other: what is left of k is smaller than factor.
        change = Affine(((name, 1),))
        for other, k in factors.items():
            if other != name:
                change = change.add(Affine(((other, 1),)), -(k // factor))
        if len(factors) > 1:
            return System(system.dims, *changed(system, name, change))
        rest = Affine(tuple(t for t in equation.form.terms if t[0] != name), equation.form.const)
        rest = rest.scale(-1 if factor > 0 else 1)
        value = quotient(rest, abs(factor))
        solved = system.with_value(name, value)
        solved.rows.append(Row(rest.add(value, -abs(factor)), True))
        return solved

    # }}}
    # {{{ sums

    def summed(self, system: System) -> Iterator[PiecewisePolynomial]:
        """Yield the parts of the sum of the system's polynomial over its points."""
        self.cases += 1
        if self.cases > _MOST_CASES:
            raise UncountableError(f"it falls into more than {_MOST_CASES} cases")
        simpler: System | None = system
        while simpler is not None:
            solved = self.solved(simpler)
            if solved is None:
                return
            system = solved
            simpler = determined(system) or joined(system)
        if not system.dims:
            rows = tuple(row for row in system.rows if row.form.terms)
            yield PiecewisePolynomial((Guarded(rows, system.polynomial),))
            return
        whole = [x for x in system.dims if all(abs(k) == 1 for k in system.coefficient_of(x))]
        if whole:
            name = min(whole, key=lambda x: _pairs(system, x))
            yield from self.over(system, name)
        else:
            yield from self.divided(system)

    def over(self, system: System, name: str) -> Iterator[PiecewisePolynomial]:
        """Yield the parts of the sum, summed over the dimension *name* first."""
        lower: list[Affine] = []
        upper: list[Affine] = []
        rest: list[Row] = []
        for row in system.rows:
            factor = row.form.coefficient(name)
            without = Affine(tuple(t for t in row.form.terms if t[0] != name), row.form.const)
            if factor:
                (lower if factor > 0 else upper).append(without.scale(-factor))
            else:
                rest.append(row)
        if not lower or not upper:
            raise UncountableError("it is unbounded")
        dims = [x for x in system.dims if x != name]
        is_choice = len(lower) * len(upper) > 1
        for low, above in _choices(lower, 1):
            for high, below in _choices(upper, -1):
                rows = [*rest, *above, *below, Row(high.add(low, -1))]
                part = System(dims, rows, _between(system.polynomial, name, low, high))
                if not is_choice:
                    yield from self.summed(part)
                elif (lean := self.lean(part)) is not None:
                    yield from self.summed(lean)

    def lean(self, system: System) -> System | None:
        """Return *system* without rows that follow from the others; None if it has no points."""
        space = self.domain.get_space().params().set_from_params().add_dims(_SET, len(system.dims))
        found = add_rows(isl.Set.universe(space), system.dims, system.rows).intersect_params(self.context)
        if found.is_empty():
            return None
        basics = found.get_basic_sets()
        if len(basics) > 1:
            return system
        rows = rows_of(basics[0].remove_redundancies(), system.dims)
        known = rows_of_parameters(self.context)
        return self.linear_again(System(system.dims, [r for r in rows if r not in known], system.polynomial), system)

    def linear_again(self, system: System, before: System) -> System:
        """Return *system*, or *before* if ISL has put dimensions into quotients."""
        dims = set(system.dims)
        for row in system.rows:
            if any(isinstance(var, Floor) and dims & Affine.variable(var).names() for var, _ in row.form.terms):
                return before
        return system

    def divided(self, system: System) -> Iterator[PiecewisePolynomial]:
        """Yield the parts of the sum for the residues that make the bounds of one dimension whole."""
        steps = min((_steps(system, name) for name in system.dims), key=lambda found: prod(found.values()))
        if prod(steps.values()) > _MOST_CASES:
            listed = ", ".join(map(str, steps.values()))
            raise UncountableError(f"it depends on the remainders of divisions by {listed}")
        for residues in product(*map(range, steps.values())):
            part = system
            for (name, step), residue in zip(steps.items(), residues, strict=True):
                whole = next(self.fresh)
                part = part.with_value(name, Affine(((whole, step),), residue))
                part.dims.append(whole)
            if (lean := self.lean(part)) is not None:
                yield from self.summed(lean)

    # }}}

    def divided_out(self, polynomial: Polynomial) -> Polynomial:
        """Return *polynomial* with exact divisions in place of quotients with a constant remainder in the context."""
        for entry in polynomial.quotients():
            if entry not in self.remainders:
                self.remainders[entry] = _remainder(entry, self.context)
            remainder = self.remainders[entry]
            if remainder is not None:
                exact = Polynomial.of_affine(Affine(entry.terms, entry.const - remainder))
                polynomial = polynomial.without(entry, exact.scale(Fraction(1, entry.den)))
        return polynomial

    def tidied(self, found: PiecewisePolynomial) -> PiecewisePolynomial:
        """Return *found* with the conditions that the context leaves open, and equal polynomials together."""
        groups: dict[Polynomial, list[isl.Set]] = {}
        known = self.context
        for piece in found.pieces:
            where = add_rows(isl.Set.universe(known.get_space()), (), piece.rows) if piece.rows else None
            if where is not None and where.is_disjoint(known):
                continue
            own = isl.Set.universe(known.get_space()) if where is None else where.gist(known)
            groups.setdefault(self.divided_out(piece.polynomial), []).append(own)
        pieces = []
        for polynomial, sets in groups.items():
            for where in _united(sets):
                for basic in apart(where.coalesce()):
                    rows = tuple(sorted(rows_of(basic.remove_redundancies(), ()), key=str))
                    pieces.append(PiecewisePolynomial((Guarded(rows, polynomial),)))
        return PiecewisePolynomial.total(pieces)


def _remainder(quotient: Floor, context: isl.Set) -> int | None:
    """Return the remainder of a division, None if it depends on the parameters."""
    values = sample_set(context, ())
    if values is None or context.plain_is_universe():
        return None
    remainder = Affine(quotient.terms, quotient.const).evaluate(values) % quotient.den
    rest = Affine(quotient.terms, quotient.const - remainder).add(Affine(((quotient, 1),)), -quotient.den)
    return remainder if context.is_subset(add_rows(context, (), [Row(rest, True)])) else None


def _united(sets: Sequence[isl.Set]) -> list[isl.Set]:
    """Return the union of *sets* if they are disjoint, otherwise the sets."""
    union = sets[0]
    for other in sets[1:]:
        if not union.is_disjoint(other):
            return list(sets)
        union = union.union(other)
    return [union]


def rows_of_parameters(context: isl.Set) -> frozenset[Row]:
    """Return rows that hold for all parameters in *context*."""
    basics = context.get_basic_sets()
    return frozenset(rows_of(basics[0].remove_unknown_divs(), ())) if len(basics) == 1 else frozenset()


_Product: TypeAlias = "dict[frozenset[str], PiecewisePolynomial]"
"""Factors of a count, by the dimensions that they count."""


def _multiplied(product: _Product) -> PiecewisePolynomial:
    total = PiecewisePolynomial.of(1)
    for factor in product.values():
        total *= factor
    return total


def _components(system: System) -> Iterator[System]:
    """Yield the parts of *system* that share no dimension; rows over parameters alone are a part too."""
    assert system.polynomial.value == 1, "points are counted"
    groups: list[tuple[set[str], list[Row]]] = [({name}, []) for name in system.dims]
    parameters: list[Row] = []
    for row in system.rows:
        names = set(dims_in(row.form, system))
        if not names:
            parameters.append(row)
            continue
        touched = [group for group in groups if group[0] & names]
        merged: set[str] = set().union(*(group[0] for group in touched))
        groups = [group for group in groups if group not in touched]
        groups.append((merged, [*(r for _, rows in touched for r in rows), row]))
    if parameters:
        yield System([], parameters)
    for names, rows in sorted(groups, key=lambda group: min(group[0])):
        yield System([x for x in system.dims if x in names], rows)


def _pairs(system: System, name: str) -> tuple[int, int]:
    """Return the number of cases and of rows in a sum over *name*."""
    factors = system.coefficient_of(name)
    low = sum(k > 0 for k in factors)
    return low * (len(factors) - low), len(factors)


def _steps(system: System, name: str) -> dict[str, int]:
    """Return dimension -> modulus, for which all bounds of *name* are integers."""
    found: dict[str, int] = {}
    for row in system.rows:
        factors = dims_in(row.form, system)
        own = abs(factors.pop(name, 0))
        if own > 1:
            found.update((x, lcm(found.get(x, 1), own // gcd(own, k))) for x, k in factors.items())
    return {x: step for x, step in found.items() if step > 1}


def _choices(bounds: Sequence[Affine], sign: int) -> Iterator[tuple[Affine, list[Row]]]:
    """Yield each bound with the conditions under which it is the tightest; ties go to the first."""
    distinct = list(dict.fromkeys(bounds))
    for number, bound in enumerate(distinct):
        rows = []
        for k, other in enumerate(distinct):
            if k != number:
                difference = bound.add(other, -1).scale(sign)
                rows.append(Row(Affine(difference.terms, difference.const - (k < number))))
        yield bound, rows


def _between(polynomial: Polynomial, name: str, low: Affine, high: Affine) -> Polynomial:
    """Return the sum of *polynomial* over ``low <= name <= high``."""
    first, last = Polynomial.of_affine(low) + -1, Polynomial.of_affine(high)
    total = Polynomial({})
    for power, factor in enumerate(polynomial.coefficients(name)):
        if factor.terms:
            total += factor * (power_sum(power, last) - power_sum(power, first))
    return total


