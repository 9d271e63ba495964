"""Polynomials and piecewise polynomials in integer parameters, as plain Python values.

Counts of points, operations and bytes are such polynomials.  A variable of a polynomial is a parameter or a quotient of
parameters rounded down (:class:`polyloop.poly.affine.Floor`), which makes it a quasi-polynomial.  Coefficients are
rational; the values that a count takes are integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb, lcm
from typing import Final, TypeAlias

import numpy as np

from polyloop.display import Shown, brief, clipped
from polyloop.edge.words import misfit
from polyloop.errors import ArgumentError, Diagnostic
from polyloop.poly.affine import Affine, Floor, Var
from polyloop.poly.sets import Row

__all__ = ["ZERO", "Guarded", "PiecewisePolynomial", "Polynomial", "holds", "power_sum", "row_text"]

Monomial: TypeAlias = tuple[tuple[Var, int], ...]
"""Variables with their powers, sorted by the variables' text."""


def _text(var: Var) -> str:
    if isinstance(var, Floor):
        inner = _affine_text(Affine(var.terms, var.const))
        return f"floor({inner if inner.isidentifier() else f'({inner})'}/{var.den})"
    return var


def _affine_text(form: Affine) -> str:
    return str(Polynomial.of_affine(form))


@dataclass(frozen=True)
class Polynomial:
    """``sum(coefficient * product(variable ** power))``; no coefficient is zero."""

    terms: Mapping[Monomial, Fraction]

    __repr__ = brief

    @staticmethod
    def constant(value: int | Fraction) -> Polynomial:
        """Return the polynomial *value*."""
        return Polynomial({(): Fraction(value)} if value else {})

    @staticmethod
    def variable(var: Var) -> Polynomial:
        """Return the polynomial *var*."""
        return Polynomial({((var, 1),): Fraction(1)})

    @staticmethod
    def of_affine(form: Affine) -> Polynomial:
        """Return an affine form as a polynomial."""
        found: dict[Monomial, Fraction] = {((var, 1),): Fraction(factor) for var, factor in form.terms}
        if form.const:
            found[()] = Fraction(form.const)
        return Polynomial(found)

    def __add__(self, other: Polynomial | int) -> Polynomial:
        """Return the sum."""
        if isinstance(other, int):
            other = Polynomial.constant(other)
        total = dict(self.terms)
        for monomial, factor in other.terms.items():
            total[monomial] = total.get(monomial, Fraction(0)) + factor
        return Polynomial({monomial: factor for monomial, factor in total.items() if factor})

    def __sub__(self, other: Polynomial) -> Polynomial:
        """Return the difference."""
        return self + other.scale(-1)

    def scale(self, factor: int | Fraction) -> Polynomial:
        """Return ``factor * self``."""
        return Polynomial({monomial: own * factor for monomial, own in self.terms.items()} if factor else {})

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        """Return the product."""
        if isinstance(other, int):
            return self.scale(other)
        total: dict[Monomial, Fraction] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                key = _product(left, right)
                total[key] = total.get(key, Fraction(0)) + a * b
        return Polynomial({monomial: factor for monomial, factor in total.items() if factor})

    def coefficients(self, name: str) -> list[Polynomial]:
        """Return the factors of ``name**0``, ``name**1``, .. as polynomials without *name*."""
        parts: dict[int, dict[Monomial, Fraction]] = {0: {}}
        for monomial, factor in self.terms.items():
            power = next((k for var, k in monomial if var == name), 0)
            rest = tuple(entry for entry in monomial if entry[0] != name)
            parts.setdefault(power, {})[rest] = factor
        return [Polynomial(parts.get(power, {})) for power in range(max(parts) + 1)]

    def substitute(self, name: str, value: Polynomial) -> Polynomial:
        """Return the polynomial with *value* for *name*, which occurs in no quotient."""
        parts = self.coefficients(name)
        total = Polynomial({})
        for part in reversed(parts):
            total = total * value + part
        return total

    def quotients(self) -> tuple[Floor, ...]:
        """Return the quotients that occur."""
        found = (var for monomial in self.terms for var, _ in monomial)
        return tuple(dict.fromkeys(var for var in found if isinstance(var, Floor)))

    def without(self, quotient: Floor, value: Polynomial) -> Polynomial:
        """Return the polynomial with *value* for *quotient*."""
        total = Polynomial({})
        for monomial, factor in self.terms.items():
            part = Polynomial({tuple(entry for entry in monomial if entry[0] != quotient): factor})
            for _ in range(next((power for var, power in monomial if var == quotient), 0)):
                part *= value
            total += part
        return total

    def names(self) -> frozenset[str]:
        """Return the names that occur, in quotients too."""
        variables = {var for monomial in self.terms for var, _ in monomial}
        return frozenset[str]().union(*(Affine.variable(var).names() for var in variables))

    def evaluate(self, values: Mapping[str, int]) -> Fraction:
        """Return the value where the names have *values*."""
        total = Fraction(0)
        for monomial, factor in self.terms.items():
            product = 1
            for var, power in monomial:
                product *= Affine.variable(var).evaluate(values) ** power
            total += factor * product
        return total

    @property
    def value(self) -> int | Fraction | None:
        """Value of a constant polynomial, None if it depends on a name."""
        if not self.terms:
            return 0
        if set(self.terms) == {()}:
            number = self.terms[()]
            return number.numerator if number.denominator == 1 else number
        return None

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        denominator = lcm(*(factor.denominator for factor in self.terms.values()))
        ordered = sorted(self.terms.items(), key=_rank)
        text = ""
        for monomial, factor in ordered:
            number = int(factor * denominator)
            sign = ("-" if number < 0 else "") if not text else (" - " if number < 0 else " + ")
            text += sign + _term(abs(number), monomial)
        if denominator == 1:
            return text
        return f"({text})/{denominator}" if len(ordered) > 1 else f"{text}/{denominator}"

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))


def _rank(entry: tuple[Monomial, Fraction]) -> tuple[int, list[tuple[bool, str, int]]]:
    """Return the sort key of terms in print: the highest degree first, names before quotients."""
    monomial, _ = entry
    return -sum(power for _, power in monomial), [(isinstance(v, Floor), _text(v), -k) for v, k in monomial]


def _term(number: int, monomial: Monomial) -> str:
    factors = [_text(var) + (f"**{power}" if power > 1 else "") for var, power in monomial]
    if number != 1 or not factors:
        factors.insert(0, str(number))
    return "*".join(factors)


def _product(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    powers = dict(left)
    for var, power in right:
        powers[var] = powers.get(var, 0) + power
    return tuple(sorted(powers.items(), key=lambda entry: _text(entry[0])))


# {{{ sums of powers


@cache
def _bernoulli(count: int) -> tuple[Fraction, ...]:
    """Return the first Bernoulli numbers, with ``B_1 = +1/2``."""
    found = [Fraction(1)]
    for m in range(1, count):
        found.append(1 - sum((Fraction(comb(m, k)) * found[k] / (m - k + 1) for k in range(m)), Fraction(0)))
    return tuple(found)


@cache
def _power_sum_factors(power: int) -> tuple[Fraction, ...]:
    """Return the factors of ``m**0``, ``m**1``, .. in ``0**power + 1**power + .. + m**power``."""
    factors = [Fraction(0)] * (power + 2)
    for j, number in enumerate(_bernoulli(power + 1)):
        factors[power + 1 - j] += Fraction(comb(power + 1, j), power + 1) * number
    if power == 0:
        factors[0] += 1  # 0**0 is a term too
    return tuple(factors)


def power_sum(power: int, last: Polynomial) -> Polynomial:
    """Return ``0**power + 1**power + .. + last**power``, by Faulhaber's formula (a polynomial in *last*)."""
    total = Polynomial({})
    for factor in reversed(_power_sum_factors(power)):
        total = total * last + Polynomial.constant(factor)
    return total


# }}}
# {{{ pieces


def row_text(row: Row) -> str:
    """Return a constraint for people: ``n >= 16``."""
    form, is_equality = row
    left = [(var, factor) for var, factor in form.terms if factor > 0]
    right = [(var, -factor) for var, factor in form.terms if factor < 0]
    if not left:
        sign = "==" if is_equality else "<="
        return f"{_affine_text(Affine(tuple(right)))} {sign} {form.const}"
    low = Affine(tuple(right), -form.const)
    return f"{_affine_text(Affine(tuple(left)))} {'==' if is_equality else '>='} {_affine_text(low)}"


def holds(row: Row, values: Mapping[str, int]) -> bool:
    """Return whether a constraint holds where its names have *values*."""
    found = row.form.evaluate(values)
    return found == 0 if row.is_equality else found >= 0


@dataclass(frozen=True)
class Guarded:
    """A polynomial that counts where all of ``rows`` hold, and 0 elsewhere."""

    rows: tuple[Row, ...]
    polynomial: Polynomial

    __repr__ = brief

    def __str__(self) -> str:
        if not self.rows:
            return str(self.polynomial)
        return f"({self.polynomial} if {' and '.join(map(row_text, self.rows))})"


@dataclass(frozen=True)
class PiecewisePolynomial(Shown):
    """A sum of polynomials, each of which counts under conditions on the parameters only."""

    pieces: tuple[Guarded, ...] = ()

    @staticmethod
    def of(value: Polynomial | int) -> PiecewisePolynomial:
        """Return the piecewise polynomial with *value* for all parameters."""
        polynomial = Polynomial.constant(value) if isinstance(value, int) else value
        return PiecewisePolynomial((Guarded((), polynomial),) if polynomial.terms else ())

    @staticmethod
    def total(parts: Iterable[PiecewisePolynomial]) -> PiecewisePolynomial:
        """Return the sum of *parts*."""
        found: dict[tuple[Row, ...], Polynomial] = {}
        for part in parts:
            for piece in part.pieces:
                known = found.get(piece.rows)
                found[piece.rows] = piece.polynomial if known is None else known + piece.polynomial
        return PiecewisePolynomial(tuple(Guarded(rows, p) for rows, p in found.items() if p.terms))

    def __add__(self, other: PiecewisePolynomial | int) -> PiecewisePolynomial:
        """Return the sum."""
        other = PiecewisePolynomial.of(other) if isinstance(other, int) else other
        return PiecewisePolynomial.total((self, other))

    __radd__ = __add__

    def __sub__(self, other: PiecewisePolynomial) -> PiecewisePolynomial:
        """Return the difference."""
        return self + other * -1

    def __mul__(self, other: PiecewisePolynomial | Polynomial | int) -> PiecewisePolynomial:
        """Return the product."""
        if not isinstance(other, PiecewisePolynomial):
            other = PiecewisePolynomial.of(other)
        return PiecewisePolynomial.total(
            PiecewisePolynomial((Guarded(tuple(dict.fromkeys((*a.rows, *b.rows))), a.polynomial * b.polynomial),))
            for a in self.pieces
            for b in other.pieces
        )

    __rmul__ = __mul__

    def eval_with_dict(self, values: Mapping[str, int]) -> int:
        """Return the value where the parameters have *values*.

        Raises
        ------
        ArgumentError
            ``missing-argument``, ``wrong-argument-type``.
        """
        self._check(values)
        return self.value_at(values)

    def value_at(self, values: Mapping[str, int]) -> int:
        """Return the value where the parameters have *values*, an integer for each of them."""
        found = (p.polynomial.evaluate(values) for p in self.pieces if all(holds(row, values) for row in p.rows))
        total = sum(found, Fraction(0))
        assert total.denominator == 1, f"a count is {total}"
        return total.numerator

    def _check(self, values: Mapping[str, int]) -> None:
        """Refuse *values* that are no integers, or not all."""
        hint = Mapping[str, int]
        if not isinstance(values, Mapping):
            raise ArgumentError("eval_with_dict", None, [misfit("values", hint, values)])
        for name in sorted(self.names()):
            if name not in values:
                what = f"the count depends on '{name}', which has no value"
                given = f"pass its value: {{\"{name}\": 1024}}"
                raise ArgumentError("eval_with_dict", None, [Diagnostic("missing-argument", what, hints=(given,))])
            if not isinstance(values[name], int | np.integer):
                raise ArgumentError("eval_with_dict", None, [misfit(name, int, values[name])])

    def names(self) -> frozenset[str]:
        """Return the parameters that it depends on."""
        found = [piece.polynomial.names() for piece in self.pieces]
        found += [row.form.names() for piece in self.pieces for row in piece.rows]
        return frozenset[str]().union(*found)

    @property
    def is_zero(self) -> bool:
        """True if no piece is left: 0 for all parameters (sound, incomplete: conditions are not examined)."""
        return not self.pieces

    def __repr__(self) -> str:
        return f"<{clipped(str(self), 200)}>"

    def __str__(self) -> str:
        return " + ".join(map(str, self.pieces)) or "0"


ZERO: Final = PiecewisePolynomial()

# }}}
