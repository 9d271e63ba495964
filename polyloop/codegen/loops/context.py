"""Contexts: facts that hold at a point of the generated program, and implications of rows.

A context only ever receives rows that emitted code enforces (launch configuration, loop bounds, conditions) or that
the caller guarantees.  Failing to prove something costs a redundant condition, never a wrong result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import gcd
from typing import TypeAlias

import islpy as isl

from polyloop.codegen.loops.rows import hull, in_order, rows_of, tightened
from polyloop.poly.affine import Affine, Floor, Var
from polyloop.poly.residues import Divisibility, residues
from polyloop.poly.sets import settled

__all__ = ["Context", "Known", "known_of"]

Terms: TypeAlias = tuple[tuple[Var, int], ...]
_Named: TypeAlias = tuple[frozenset[Var], Terms, int]
"""A row with its variables."""


def _floor_facts(terms: Terms) -> Iterator[Affine]:
    """Yield the rows of every floor in *terms*: its remainder is at least 0 and less than the divisor."""
    for var, _ in terms:
        if isinstance(var, Floor):
            remainder = Affine(var.terms, var.const).add(Affine(((var, 1),)), -var.den)
            yield remainder
            yield Affine((), var.den - 1).add(remainder, -1)


def _without_floor(terms: Terms, const: int) -> Iterator[Affine]:
    """Yield the row that is equivalent to ``terms + const >= 0`` with one floor less, if there is one.

    ``floor(t / d) + r >= 0`` holds exactly where ``t + d * r >= 0`` does, and ``r - floor(t / d) >= 0`` exactly where
    ``d * r + d - 1 - t >= 0`` does, because ``r`` is an integer.
    """
    for var, coefficient in terms:
        if isinstance(var, Floor) and abs(coefficient) == 1:
            rest = Affine(tuple(term for term in terms if term[0] != var), const).scale(var.den)
            slack = 0 if coefficient > 0 else var.den - 1
            yield tightened(rest.add(Affine(var.terms, var.const), coefficient).add(Affine((), slack)))
            return


class Context:
    """A conjunction of rows ``form >= 0``, with the interval of each variable that follows from them."""

    __slots__ = ("_children", "_failed", "_name_sets", "_named", "_proved", "box", "rows")

    def __init__(self) -> None:
        self.rows: dict[Terms, int] = {}
        self.box: dict[Var, tuple[int | None, int | None]] = {}
        self._proved: set[Affine] = set()
        self._failed: set[Affine] = set()
        self._children: dict[tuple[Affine, ...], Context] = {}
        self._named: list[_Named] | None = None
        self._name_sets: set[frozenset[Var]] = set()

    def add(self, rows: Iterable[Affine]) -> Context:
        """Return the context with *rows* added; it is kept, with its proofs, for the next call with the same rows."""
        new = tuple(rows)
        if not new:
            return self
        child = self._children.get(new)
        if child is not None:
            return child
        child = self._children[new] = Context()
        child.rows = self.rows.copy()
        child.box = self.box.copy()
        child._proved = self._proved.copy()
        if self._named is not None:  # old rows stay beside stronger new ones: they are still true
            added = [_named(*row) for row in new]
            child._named = [*self._named, *added]
            child._name_sets = self._name_sets.union([names for names, _, _ in added if names])
        for terms, const in new:
            old = child.rows.get(terms)
            if old is None or const < old:
                child.rows[terms] = const
            if len(terms) == 1:
                child._narrow(terms[0][0], terms[0][1], const)
        for terms, const in new:
            if len(terms) > 1:
                child._propagate(terms, const)
        return child

    def _narrow(self, var: Var, coefficient: int, const: int) -> None:
        """Narrow the box by ``coefficient * var + const >= 0``."""
        low, high = self.box.get(var, (None, None))
        if coefficient > 0:
            bound = -(const // coefficient)
            low = bound if low is None or bound > low else low
        else:
            bound = const // -coefficient
            high = bound if high is None or bound < high else high
        self.box[var] = (low, high)

    def _propagate(self, terms: Terms, const: int) -> None:
        """Narrow each variable of a row by the greatest values of the others."""
        tops: list[int | None] = []
        for var, coefficient in terms:
            low, high = self.box.get(var, (None, None))
            limit = high if coefficient > 0 else low
            tops.append(None if limit is None else coefficient * limit)
        unknown = sum(top is None for top in tops)
        if unknown > 1:
            return
        total = const + sum(top for top in tops if top is not None)
        for (var, coefficient), top in zip(terms, tops, strict=True):
            if unknown == 0 or top is None:
                self._narrow(var, coefficient, total - (top or 0))

    def low(self, terms: Iterable[tuple[Var, int]], const: int) -> int | None:
        """Return the least value of a form over the box, None if it has none."""
        total = const
        for var, coefficient in terms:
            interval = self.box.get(var)
            if interval is None:
                return None
            limit = interval[0] if coefficient > 0 else interval[1]
            if limit is None:
                return None
            total += coefficient * limit
        return total

    def interval(self, var: Var) -> tuple[int | None, int | None]:
        """Return the known interval of *var*, None for a side without a bound."""
        return self.box.get(var, (None, None))

    def implies(self, row: Affine) -> bool:
        """Return True if *row* provably holds; False if no proof was found."""
        terms, const = row
        if not terms:
            return const >= 0
        known = self.rows.get(terms)
        if known is not None and known <= const:
            return True
        if row in self._proved:
            return True
        if row in self._failed:
            return False
        answer = self._prove(terms, const)
        (self._proved if answer else self._failed).add(row)
        return answer

    def _has(self, row: Affine) -> bool:
        terms, const = tightened(row)
        known = self.rows.get(terms)
        return known is not None and known <= const

    def _prove(self, terms: Terms, const: int) -> bool:
        least = self.low(terms, const)
        if least is not None and least >= 0:
            return True
        if self._prove_worst_case(terms, const) or self._prove_by_difference(terms, const):
            return True
        return any(self.implies(row) for row in _without_floor(terms, const))

    def _prove_worst_case(self, terms: Terms, const: int) -> bool:
        """Try to prove a row after substituting the worst value of each variable with a constant interval."""
        rest = []
        for var, coefficient in terms:
            low, high = self.box.get(var, (None, None))
            if low is None or high is None:
                rest.append((var, coefficient))
            else:
                const += coefficient * (low if coefficient > 0 else high)
        if not rest or len(rest) == len(terms):
            return False
        row = tightened(Affine(tuple(rest), const))
        if self._has(row):
            return True
        least = self.low(row.terms, row.const)
        return (least is not None and least >= 0) or self._prove_by_difference(row.terms, row.const)

    def _prove_by_difference(self, terms: Terms, const: int) -> bool:
        """Try to find a known row K such that ``row - K`` is known to be nonnegative.

        The least value of ``row`` over the box is negative here.  For a K on one variable, which the box includes
        already, so is the least value of ``row - K``; it is only compared with known rows, up to a factor.
        """
        wanted = dict(terms)
        names = frozenset(wanted)
        size = len(wanted) + 1
        if self._named is None:
            self._named = [_named(known, known_const) for known, known_const in self.rows.items()]
            self._name_sets = {known_names for known_names, _, _ in self._named if known_names}
        floors = [_named(*fact) for fact in _floor_facts(terms)]
        for known_names, known, known_const in chain(self._named, floors):
            if names.isdisjoint(known_names):
                continue
            if len(known) == 1:
                remain = names - known_names if wanted[known[0][0]] == known[0][1] else names
                if remain in self._name_sets and self._has_multiple(_difference(wanted, known), const - known_const):
                    return True
                continue
            times = _times(wanted, known)
            left = _difference(wanted, known, times)
            if len(left) > size:
                continue
            rest = const - times * known_const
            least = self.low(left.items(), rest)
            if least is not None and least >= 0:
                return True
            if left and self._has_multiple(left, rest):
                return True
        return False

    def _has_multiple(self, terms: dict[Var, int], const: int) -> bool:
        """Return True if an unsorted row, divided by the gcd of its coefficients, is known."""
        common = gcd(*terms.values())
        if common > 1:
            terms = {var: coefficient // common for var, coefficient in terms.items()}
        known = self.rows.get(Affine.make(terms).terms)
        return known is not None and known <= const // common


def _times(wanted: dict[Var, int], known: Terms) -> int:
    """Return the factor with which *wanted* has all terms of *known*; 1 if there is none."""
    var, coefficient = known[0]
    times = wanted.get(var, 0) // coefficient
    if times > 1 and all(wanted.get(var) == times * coefficient for var, coefficient in known):
        return times
    return 1


def _difference(wanted: dict[Var, int], known: Terms, times: int = 1) -> dict[Var, int]:
    """Return the coefficients of ``wanted - times * known``."""
    left = wanted.copy()
    for var, coefficient in known:
        value = left.get(var, 0) - times * coefficient
        if value:
            left[var] = value
        else:
            del left[var]
    return left


def _named(terms: Terms, const: int) -> _Named:
    return frozenset([var for var, _ in terms]), terms, const


@dataclass(frozen=True)
class Known:
    """Assumptions about the parameters: rows, and residues such as ``n mod 16 = 0``."""

    context: Context
    divisibility: Divisibility


def known_of(assumptions: isl.Set) -> Known:
    """Return *assumptions* as rows and residues."""
    divisibility = residues(assumptions)
    basics = settled(assumptions).compute_divs().get_basic_sets()
    pieces = in_order(rows_of(basic, (), divisibility) for basic in basics)
    context = Context().add(Affine(terms, const) for terms, const in hull(pieces).items())
    return Known(context, divisibility)
