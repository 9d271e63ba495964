"""Quasi-affine forms with integer coefficients, as plain Python values.

``Affine`` is the common currency of the library: subscripts, bounds and guards are such forms,
and no ISL object is needed to add, substitute or print them.  A variable is a name or a
:class:`Floor` of another form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import pymbolic.primitives as p

from polyloop.expr.constants import number_of
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import variables
from polyloop.memo import memoised

__all__ = ["Affine", "Floor", "Var", "affine_in", "affine_of", "isl_text", "take_modulo", "to_expression"]


_new = tuple.__new__
"""Makes a named tuple without a look at names and defaults."""


class Floor(NamedTuple):
    """``floor((sum(c*v) + const) / den)``; ``terms`` as in :class:`Affine`, ``den`` > 0."""

    terms: tuple[tuple[Var, int], ...]
    const: int
    den: int


Var: TypeAlias = str | Floor


def _sort_key(term: tuple[Var, int]) -> str:
    var = term[0]
    return var if type(var) is str else str(var)


class Affine(NamedTuple):
    """``sum(coefficient * variable) + const``; terms sorted by variable, no zero coefficients."""

    terms: tuple[tuple[Var, int], ...]
    const: int = 0

    @staticmethod
    def make(terms: Mapping[Var, int] | Iterable[tuple[Var, int]], const: int = 0) -> Affine:
        """Return the canonical form of possibly unsorted terms."""
        if type(terms) is dict or (type(terms) is not list and isinstance(terms, Mapping)):
            terms = terms.items()
        items = [term for term in terms if term[1]]
        if len(items) > 1:
            items.sort(key=_sort_key)
        return _new(Affine, (tuple(items), const))

    @staticmethod
    def variable(name: Var) -> Affine:
        """Return the form ``name``."""
        return _new(Affine, (((name, 1),), 0))

    def add(self, other: Affine, scale: int = 1) -> Affine:
        """Return ``self + scale * other``."""
        if not other.terms or not scale:
            return _new(Affine, (self.terms, self.const + scale * other.const))
        if not self.terms:
            terms = other.terms if scale == 1 else tuple([(v, scale * c) for v, c in other.terms])
            return _new(Affine, (terms, self.const + scale * other.const))
        total = dict(self.terms)
        for var, coefficient in other.terms:
            total[var] = total.get(var, 0) + scale * coefficient
        return Affine.make(total, self.const + scale * other.const)

    def scale(self, factor: int) -> Affine:
        """Return ``factor * self``."""
        if factor == 0:
            return Affine((), 0)
        return _new(Affine, (tuple([(v, factor * c) for v, c in self.terms]), factor * self.const))

    def floordiv(self, den: int) -> Affine:
        """Return ``floor(self / den)``, exactly; ``den`` > 0."""
        if den == 1:
            return self
        inside = [(v, c) for v, c in self.terms if c % den]
        outside = [(v, c // den) for v, c in self.terms if c % den == 0]
        whole, rest = divmod(self.const, den)
        if not inside:
            return Affine.make(outside, whole)
        floor = Floor(tuple(inside), rest, den)
        if any(var == floor for var, _ in outside):  # floor((x - 2*floor(x/2))/2): the quotient is outside already
            return Affine.make(outside, whole).add(Affine(((floor, 1),), 0))
        return Affine.make([*outside, (floor, 1)], whole)

    def substitute(self, values: Mapping[str, Affine]) -> Affine:
        """Return the form with names replaced, inside floors too."""
        terms = self.terms
        for var, _ in terms:
            if type(var) is not str or var in values:
                break
        else:
            return self
        if len(terms) == 1 and type(var) is str:
            value, coefficient = values[var], terms[0][1]
            if coefficient != 1:
                value = value.scale(coefficient)
            return _new(Affine, (value.terms, value.const + self.const)) if self.const else value
        total = Affine((), self.const)
        for var, coefficient in terms:
            if type(var) is str:
                total = total.add(values.get(var) or Affine.variable(var), coefficient)
            else:
                assert isinstance(var, Floor)
                inner = Affine(var.terms, var.const).substitute(values).floordiv(var.den)
                total = total.add(inner, coefficient)
        return total

    def names(self) -> frozenset[str]:
        """Return every name in the form, inside floors too."""
        found: set[str] = set()
        for var, _ in self.terms:
            if type(var) is str:
                found.add(var)
            else:
                assert isinstance(var, Floor)
                found |= Affine(var.terms, var.const).names()
        return frozenset(found)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Return the value of the form where its names have *values*."""
        total = self.const
        for var, coefficient in self.terms:
            if isinstance(var, Floor):
                total += coefficient * (Affine(var.terms, var.const).evaluate(values) // var.den)
            else:
                total += coefficient * values[var]
        return total

    def coefficient(self, name: str) -> int:
        """Return the coefficient of *name* outside of floors."""
        for var, coefficient in self.terms:
            if var == name:
                return coefficient
        return 0

    def is_constant(self) -> bool:
        """Return whether no variable occurs."""
        return not self.terms


def affine_of(expr: Expression) -> Affine | None:
    """Return *expr* as an affine form of its variables, or None if it is not quasi-affine."""
    kind = type(expr)
    if kind is int:
        return _new(Affine, ((), expr))
    if kind is p.Variable:
        return _new(Affine, (((expr.name, 1),), 0))
    if kind is p.Sum:
        return _affine_sum(expr)
    if kind is p.Product:
        return _affine_product(expr)
    if kind is p.FloorDiv or kind is p.Remainder:
        numerator, den = affine_of(expr.numerator), number_of(expr.denominator)
        if numerator is None or not den:
            return None
        quotient = numerator.floordiv(den) if den > 0 else numerator.scale(-1).floordiv(-den)
        return quotient if kind is p.FloorDiv else numerator.add(quotient, -den)
    apply = _WITH_CONSTANTS.get(kind)
    if apply is not None and (form := apply(expr)) is not None:
        return form
    value = number_of(expr)
    return None if value is None else Affine((), value)


def affine_in(expr: Expression, integers: Collection[str]) -> Affine | None:
    """Return *expr* as an affine form like :func:`affine_of`, None if other variables than *integers* cancel.

    A difference ``x - x`` is 0 for integers; a float may be infinite, and is a value that is read in any case.
    """
    form = affine_of(expr)
    if form is None or type(expr) is p.Variable or type(expr) is int:
        return form
    lost = variables(expr) - form.names()
    return form if all(name in integers for name in lost) else None


def _power(expr: p.Power) -> Affine | None:
    return affine_of(expr.base) if number_of(expr.exponent) == 1 else None


_MOST_SHIFTED: Final = 64


def _shift(expr: p.LeftShift | p.RightShift) -> Affine | None:
    """Return ``e << c`` as ``2**c * e``, and ``e >> c`` as ``floor(e / 2**c)``."""
    count, form = number_of(expr.shift), affine_of(expr.shiftee)
    if form is None or count is None or not 0 <= count <= _MOST_SHIFTED:
        return None
    return form.scale(1 << count) if type(expr) is p.LeftShift else form.floordiv(1 << count)


def _masked(expr: p.BitwiseAnd) -> Affine | None:
    """Return ``e & (2**c - 1)``, which is ``e % 2**c``, of negative numbers too."""
    if len(expr.children) != 2:
        return None
    masks = [number_of(child) for child in expr.children]
    for mask, other in zip(masks, reversed(expr.children), strict=True):
        if mask is not None and mask >= 0 and not mask & (mask + 1) and (form := affine_of(other)) is not None:
            return form.add(form.floordiv(mask + 1), -mask - 1)
    return None


_WITH_CONSTANTS: Final[Mapping[Any, Callable[[Any], Affine | None]]] = {
    p.Power: _power,
    p.LeftShift: _shift,
    p.RightShift: _shift,
    p.BitwiseAnd: _masked,
}
"""Operations that are affine where one operand is a constant."""


@memoised
def _affine_sum(expr: p.Sum) -> Affine | None:
    const, total = 0, dict[Var, int]()
    children: tuple[Expression, ...] = expr.children
    for child in children:
        kind = type(child)
        if kind is int:
            const += child
            continue
        if kind is p.Variable:
            total[child.name] = total.get(child.name, 0) + 1
            continue
        form = affine_of(child)
        if form is None:
            return None
        const += form.const
        for var, coefficient in form.terms:
            total[var] = total.get(var, 0) + coefficient
    return Affine.make(total, const)


def _affine_product(expr: p.Product) -> Affine | None:
    factor, form = 1, None
    for child in expr.children:
        part = affine_of(child)
        if part is None:
            return None
        if not part.terms:
            factor *= part.const
        elif form is None:
            form = part
        else:
            return None
    return Affine((), factor) if form is None else form.scale(factor)


def to_expression(form: Affine) -> Expression:
    """Return *form* as an expression; positive terms first, the constant last."""
    parts: list[Expression] = []
    ordered = sorted(form.terms, key=lambda term: term[1] < 0)
    for var, coefficient in ordered:
        if type(var) is str:
            atom: Expression = p.Variable(var)
        else:
            assert isinstance(var, Floor)
            atom = p.FloorDiv(to_expression(Affine(var.terms, var.const)), var.den)
        parts.append(atom if coefficient == 1 else p.Product((coefficient, atom)))
    if form.const or not parts:
        parts.append(form.const)
    return parts[0] if len(parts) == 1 else p.Sum(tuple(parts))


def take_modulo(form: Affine) -> tuple[Affine, Floor | None, int]:
    """Return *form* without ``c * (x - d * floor(x / d))``, the floor, and ``c``; None and 0 without such a part."""
    have = dict(form.terms)
    for var, coefficient in form.terms:
        if not isinstance(var, Floor) or coefficient % var.den:
            continue
        factor = -coefficient // var.den
        if all(have.get(v) == factor * c for v, c in var.terms):
            inside = {v for v, _ in var.terms} | {var}
            rest = tuple(term for term in form.terms if term[0] not in inside)
            return Affine(rest, form.const - factor * var.const), var, factor
    return form, None, 0


def isl_text(form: Affine) -> str:
    """Return *form* as ISL reads it."""
    parts = []
    for var, coefficient in form.terms:
        atom = f"floor(({isl_text(Affine(*var[:2]))})/{var.den})" if isinstance(var, Floor) else var
        parts.append(atom if coefficient == 1 else f"{coefficient}*{atom}")
    if form.const or not parts:
        parts.append(str(form.const))
    return " + ".join(parts).replace("+ -", "- ")
