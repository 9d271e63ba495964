"""Magnitudes of intermediate results of index arithmetic, as polynomials in the sizes.

Every integer expression that is emitted as part of an index, a bound or a condition is recorded here.  Upper bounds of
its absolute value, and of those of its parts, are polynomials in the sizes.  ``codegen/checks.py`` derives from these
the conditions under which the program's index type is wide enough.  Expressions of thread numbers and digits alone are
not recorded, because a block has at most 1024 threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.loops.rows import Divisibility
from polyloop.expr.constants import number_of
from polyloop.expr.dtypes import DType, is_bool, is_inexact, is_integer, is_unsigned
from polyloop.expr.nodes import Expression, function_name
from polyloop.expr.promotion import settle
from polyloop.expr.rewrite import children
from polyloop.expr.typing import infer_type
from polyloop.poly.affine import Affine, Floor, Var, affine_of

__all__ = ["Magnitudes", "Polynomial", "Recorded", "Sum"]

Polynomial: TypeAlias = Mapping[tuple[str, ...], int]
"""A polynomial: coefficients by products of sizes (sorted names); the empty product has the constant."""
_Bound: TypeAlias = dict[tuple[str, ...], Fraction | int]
_DATA: Final = "(data)"
"""Symbol in bounds for a 64-bit number that is read from memory, or of which nothing is known."""
_WIDEST: Final = 2**63 - 1
_TypeOf: TypeAlias = Callable[[str], DType | None]
_Types: TypeAlias = tuple[_TypeOf, _TypeOf]
"""Two functions from names to types: for names that are read or passed by value (None for indices), and for all."""
_MOST_POWER: Final = 64
_FEW: Final = 2
_BYTES: Final = 8
_EXTREMES: Final = frozenset({"min", "max"})
_USUAL: Final = 1024
"""Size by which bounds are compared."""
_NO_LARGER: Final = frozenset({"abs", "gcd", "sign"})
"""Functions whose results are no larger than their arguments, up to the opposite of the least number."""


@dataclass(frozen=True)
class Sum:
    """``c * atom + .. + const`` as it is emitted; an atom is a name, a floor or another expression.

    Attributes
    ----------
    limit
        Extent of the axis, if the value is the subscript of an existing element: it is at least 0 and less than that,
        and only intermediate results can be greater.
    is_wide
        True if it is computed in 64 bits whatever the width of indices.
    is_added
        True if its terms are added one by one to an address of other axes; ``limit`` is then the number of elements.
    """

    terms: tuple[tuple[Expression | Var, int], ...]
    const: int
    limit: Expression | None = None
    is_wide: bool = False
    is_added: bool = False


Recorded: TypeAlias = Sequence[tuple[Affine | Sum, _Types | None]]
"""Recorded items, each with the types of its names."""


class Magnitudes:
    """Recorder of index arithmetic; bounds absolute values by polynomials in the absolute values of the sizes."""

    def __init__(self, divisibility: Divisibility, nonnegative: Iterable[str] = ()) -> None:
        self._known: dict[str, _Bound] = {}
        self._natural = set(nonnegative)
        for name, (modulus, _) in divisibility.items():
            rest = 0 if name in self._natural else 1
            self._known[f"{name}#"] = {(name,): Fraction(1, modulus), (): rest}
        self._natural |= {f"{name}#" for name in divisibility if name in self._natural}
        self._seen: dict[Affine | Sum, _Types | None] = {}
        self._bounds: dict[tuple[bool, tuple[tuple[tuple[str, ...], int], ...]], None] = {}
        self._is_wide = False
        self._types: _Types | None = None
        self._log: list[tuple[Affine | Sum, _Types | None]] = []
        self._fixed: set[str] = set()

    # {{{ what is computed

    def define(self, name: str, alternatives: Iterable[Iterable[Affine]], least: int | None = None) -> None:
        """Define the bound of *name* from here on: the maximum over *alternatives* of the minimum of their forms.

        *least* is a lower bound of its value, if there is one.
        """
        total: _Bound = {}
        for forms in alternatives:
            best = min((self._of(*form) for form in forms), key=lambda bound: (len(bound), sum(bound.values())))
            for product, factor in best.items():
                total[product] = max(total.get(product, 0), factor)
        is_natural = least is not None and least >= 0
        if self._known.get(name, total) != total or is_natural != (name in self._natural):
            self._settle()
        self._known[name] = total
        (self._natural.add if is_natural else self._natural.discard)(name)

    @contextmanager
    def fixed(self, name: str, value: int) -> Iterator[None]:
        """Define *name* as the constant *value* in a ``with`` block."""
        known, is_natural = self._known.get(name), name in self._natural
        self.define(name, ((Affine((), value),),), value)
        self._fixed.add(name)
        yield
        self._settle()
        self._fixed.discard(name)
        if known is None:
            del self._known[name]
        else:
            self._known[name] = known
        (self._natural.add if is_natural else self._natural.discard)(name)

    def define_read(self, name: str, dtype: DType) -> None:
        """Define *name* from here on as a number of type *dtype* from memory."""
        self._settle()
        self._known[name] = _of_type(dtype)
        self._natural.discard(name)

    def define_sum(self, name: str, form: Affine) -> None:
        """Define *name* from here on as *form*."""
        is_natural = form.const >= 0 and all(c > 0 and self._is_natural(var) for var, c in form.terms)
        self.define(name, ((form,),), 0 if is_natural else None)

    def record(self, item: Affine | Sum, types: _Types | None = None) -> None:
        """Record that the code computes *item*, with its names as they are defined now; *types* are their types."""
        self._seen[item] = types
        self._log.append((item, types))

    def mark(self) -> int:
        """Return the present position in the log of recorded items, for :meth:`since`."""
        return len(self._log)

    def since(self, mark: int) -> Recorded:
        """Return the items recorded after *mark*."""
        return self._log[mark:]

    def again(self, items: Recorded) -> None:
        """Record *items* again, at a place where their names may have other definitions."""
        for item, types in items:
            self.record(item, types)

    def bounds(self, bits: int, *, wide: bool = False) -> list[Polynomial]:
        """Return the bounds of the recorded items and their parts: those that are *wide*, or the others.

        For 64 *bits*, bounds that depend on 64-bit numbers from memory are left out: the caller is responsible for
        these, as for every subscript that is read from memory.
        """
        self._settle()
        found = [dict(bound) for is_wide, bound in self._bounds if is_wide == wide]
        if bits == 8 * _BYTES:
            return [bound for bound in found if not any(map(_is_of_data, bound))]
        return list(map(_greatest, found))

    # }}}
    # {{{ how large it is

    def _settle(self) -> None:
        """Bound the items recorded so far, before a name in them gets another meaning."""
        for item, self._types in self._seen.items():  # noqa: B020 - the types of the present item
            self._is_wide = isinstance(item, Sum) and item.is_wide
            if isinstance(item, Sum) and item.is_added:
                self._settle_added(item)
            elif isinstance(item, Sum):
                self._settle_sum(item)
            else:
                self._keep_sum(*item)
        self._seen.clear()

    def _settle_added(self, item: Sum) -> None:
        """Bound the partial sums of an address: positive terms come first, and the whole is below the limit."""
        negative = [(var, c) for var, c in item.terms if c < 0]
        self._keep(_added([self._size(item.limit), self._of(negative, min(item.const, 0)), {(): -1}]))

    def _settle_sum(self, item: Sum) -> None:
        """Bound the intermediate results of a sum; those of a subscript by its limit, if no term exceeds the whole."""
        if item.limit is None:
            self._keep_sum(item.terms, item.const)
            return
        for var, _ in item.terms:
            if type(var) is not str:
                self._settle_parts(var)
        # positive terms are added first, so no partial sum exceeds the whole if no other term is negative
        others = [coefficient for var, coefficient in item.terms if type(var) is not str]
        is_rising = len(others) < _FEW or (len(others) == _FEW and max(map(abs, others)) == 1)
        names = [(var, c) for var, c in item.terms if type(var) is str]
        negative = [(var, c) for var, c in names if c < 0 or var not in self._natural]
        if not is_rising or any(c < 0 for c in others):
            self._keep_sum(item.terms, item.const)
        elif negative or item.const < 0:
            below = _added([self._size(item.limit), self._of(negative, min(item.const, 0))])
            if len(item.terms) + bool(item.const) > _FEW:
                if others:
                    self._keep(below)
                else:
                    self._keep_sum(item.terms, item.const)
                return
            for var, coefficient in item.terms:
                if abs(coefficient) > 1:
                    self._keep(self._of(((var, coefficient),), 0) if type(var) is str else below)

    def _keep_sum(self, terms: Iterable[tuple[Expression | Var, int]], const: int) -> None:
        for side in self._sides(terms, const):
            self._keep(side)

    def _settle_parts(self, atom: Expression) -> None:
        """Keep the bounds of the parts of an atom; the product itself is a term of the subscript."""
        if isinstance(atom, p.Product):
            for factor in atom.children:
                self._settle_parts(factor)
        elif isinstance(atom, p.ExpressionNode):
            self._size(atom)

    def _keep(self, bound: _Bound) -> None:
        found = [(product, ceil(factor)) for product, factor in sorted(bound.items()) if factor]
        self._bounds[self._is_wide, tuple(found)] = None

    def _sides(self, terms: Iterable[tuple[Expression | Var, int]], const: int) -> tuple[_Bound, _Bound]:
        """Return bounds of a sum, and of the sum of any of its terms, above and below 0."""
        above: _Bound = {(): max(const, 0)}
        below: _Bound = {(): max(-const, 0)}
        for var, coefficient in terms:
            is_natural = self._is_natural(var)
            sides = ((above,) if coefficient > 0 else (below,)) if is_natural else (above, below)
            for product, factor in self._atom(var).items():
                for side in sides:
                    side[product] = side.get(product, 0) + abs(coefficient) * factor
            if coefficient < 0 and not is_natural:
                above[()] += 1  # the least number of a type has no opposite
        return above, below

    def _of(self, terms: Iterable[tuple[Expression | Var, int]], const: int) -> _Bound:
        return _joined(self._sides(terms, const))

    def _is_natural(self, atom: Expression | Var) -> bool:
        """Return True if an atom cannot be negative."""
        if type(atom) is str:
            return atom in self._natural
        if not isinstance(atom, Floor):
            return False
        return atom.const >= 0 and all(c > 0 and self._is_natural(var) for var, c in atom.terms)

    def _atom(self, atom: Expression | Var) -> _Bound:
        if type(atom) is str:
            return self._known.get(atom) or {(atom,): 1}
        if isinstance(atom, Floor):
            inner = self._of(atom.terms, atom.const)
            own: _Bound = {product: Fraction(factor, atom.den) for product, factor in inner.items()}
            own[()] = own.get((), 0) + (0 if self._is_natural(atom) else 1)
            return own
        return self._size(atom)

    def _size(self, expr: Expression) -> _Bound:
        """Return the bound of an expression, and keep those of its parts.

        The bound of a name or an element is not kept, because its type holds it.  A name that is defined as a constant
        is replaced by a literal, so its bound is kept.
        """
        bound = self._node(expr)
        is_held = expr.name not in self._fixed if isinstance(expr, p.Variable) else isinstance(expr, p.Subscript)
        if isinstance(expr, p.ExpressionNode) and not is_held and not self._is_inexact(expr, bound):
            self._keep(bound)
        return bound

    def _is_inexact(self, expr: Expression, bound: _Bound) -> bool:
        """Return True for arithmetic of floating-point numbers, which has no width of indices."""
        if self._types is None or not any(map(_is_of_data, bound)):
            return False
        kind = infer_type(expr, self._types[1])
        return kind is not None and is_inexact(settle(kind))

    def _node(self, expr: Expression) -> _Bound:
        if isinstance(expr, int | np.integer | np.bool_):
            return {(): abs(int(expr))}
        method = self._METHODS.get(type(expr))
        return self._typed(expr) if method is None else method(self, expr)

    def _typed(self, expr: Expression) -> _Bound:
        """Return the bound of a value by its type, in which it is computed; keep the bounds of its operands."""
        for part in children(expr):
            self._size(part)
        kind = None if self._types is None else infer_type(expr, self._types[1])
        return {(_DATA,): 1} if kind is None else _of_type(settle(kind))

    def _name(self, expr: p.Variable) -> _Bound:
        dtype = None if expr.name in self._known or self._types is None else self._types[0](expr.name)
        return self._atom(expr.name) if dtype is None else _of_type(dtype)

    def _element(self, expr: p.Subscript) -> _Bound:
        """Return the bound of an element by its type; its subscripts are recorded where they are printed."""
        kind = None if self._types is None else infer_type(expr, self._types[1])
        return {(_DATA,): 1} if kind is None else _of_type(settle(kind))

    def _sum(self, expr: p.Sum) -> _Bound:
        return _added(map(self._size, expr.children))

    def _product(self, expr: p.Product) -> _Bound:
        bound = _multiplied(map(self._size, expr.children))
        is_negative = any(isinstance(part, int) and part < 0 for part in expr.children)
        return _added([bound, {(): 1}]) if is_negative else bound

    def _quotient(self, expr: p.FloorDiv) -> _Bound:
        numerator, _ = self._size(expr.numerator), self._size(expr.denominator)
        den = abs(int(expr.denominator)) if isinstance(expr.denominator, int | np.integer) else 1
        return _added([{product: Fraction(f, den or 1) for product, f in numerator.items()}, {(): 1}])

    def _remainder(self, expr: p.Remainder) -> _Bound:
        self._size(expr.numerator)
        return self._size(expr.denominator)

    def _power(self, expr: p.Power) -> _Bound:
        base, exponent = self._size(expr.base), _small(expr.exponent)
        return self._typed(expr) if exponent is None else _multiplied([base] * exponent)

    def _shifted(self, expr: p.LeftShift) -> _Bound:
        shiftee, count = self._size(expr.shiftee), _small(expr.shift)
        return self._typed(expr) if count is None else _multiplied([shiftee, {(): 1 << count}])

    def _first(self, expr: p.RightShift) -> _Bound:
        self._size(expr.shift)
        return self._size(expr.shiftee)

    def _bits(self, expr: Expression) -> _Bound:
        if isinstance(expr, p.BitwiseAnd):
            masks = [number for part in expr.children if (number := number_of(part)) is not None and number >= 0]
            if masks:  # a nonnegative mask clears the sign
                for part in expr.children:
                    self._size(part)
                return {(): min(masks)}
        bounds = [self._size(part) for part in children(expr)]
        if all(bound.keys() <= {()} for bound in bounds):  # operations on b bits and a sign give b bits and a sign
            return {(): (1 << ceil(max(bound.get((), 0) for bound in bounds)).bit_length()) - 1}
        parts = _added(bounds)
        return _added([parts, parts, {(): 1}])

    def _one_of(self, expr: Expression) -> _Bound:
        return _joined(map(self._size, children(expr)))

    def _choice(self, expr: p.If) -> _Bound:
        self._size(expr.condition)
        return _joined(map(self._size, (expr.then, expr.else_)))

    def _truth(self, expr: Expression) -> _Bound:
        for part in children(expr):
            self._size(part)
        return {(): 1}

    def _call(self, expr: p.Call) -> _Bound:
        if function_name(expr) in _EXTREMES:
            for part in children(expr):
                self._size(part)
            return _joined(self._range(expr))
        if function_name(expr) not in _NO_LARGER:
            return self._typed(expr)
        return _added([self._one_of(expr), {(): 1}])

    def _range(self, expr: Expression) -> tuple[_Bound, _Bound]:
        """Return bounds of an expression and of its opposite where these are positive: ``x`` and 0 of ``max(x, 0)``."""
        name = function_name(expr) if isinstance(expr, p.Call) else ""
        if name in _EXTREMES:
            above, below = zip(*map(self._range, children(expr)), strict=True)
            return (_least(above), _joined(below)) if name == "min" else (_joined(above), _least(below))
        if (value := number_of(expr)) is not None:
            return {(): max(value, 0)}, {(): max(-value, 0)}
        form = affine_of(expr)
        if form is not None and form.names() <= self._known.keys() | self._natural:
            return self._sides(form.terms, form.const)
        bound = self._node(expr)
        return bound, bound

    _METHODS: ClassVar[Mapping[type, Callable[[Magnitudes, Any], _Bound]]] = {
        p.Variable: _name,
        p.Subscript: _element,
        p.Sum: _sum,
        p.Product: _product,
        p.FloorDiv: _quotient,
        p.Remainder: _remainder,
        p.Power: _power,
        p.LeftShift: _shifted,
        p.RightShift: _first,
        p.BitwiseOr: _bits,
        p.BitwiseXor: _bits,
        p.BitwiseAnd: _bits,
        p.BitwiseNot: _bits,
        p.Min: _one_of,
        p.Max: _one_of,
        p.If: _choice,
        p.Comparison: _truth,
        p.LogicalAnd: _truth,
        p.LogicalOr: _truth,
        p.LogicalNot: _truth,
        p.Call: _call,
    }

    # }}}


def _small(expr: Expression) -> int | None:
    """Return a constant exponent or shift count of moderate size, None for anything else."""
    return int(expr) if isinstance(expr, int | np.integer) and 0 <= expr <= _MOST_POWER else None


def _of_type(dtype: DType) -> _Bound:
    """Return the bound of the absolute values of a type."""
    if is_bool(dtype):
        return {(): 1}
    if not is_integer(dtype) or dtype.itemsize == _BYTES:
        return {(_DATA,): 1}
    bits = 8 * dtype.itemsize
    return {(): int(2**bits if is_unsigned(dtype) else 2 ** (bits - 1)) - 1}


def _is_of_data(product: tuple[str, ...]) -> bool:
    return _DATA in product


def _greatest(bound: dict[tuple[str, ...], int]) -> Polynomial:
    """Return a bound with the greatest 64-bit value substituted for data."""
    total: dict[tuple[str, ...], int] = {}
    for product, factor in bound.items():
        names = tuple([name for name in product if name != _DATA])
        total[names] = total.get(names, 0) + factor * _WIDEST ** (len(product) - len(names))
    return total


def _least(bounds: Iterable[_Bound]) -> _Bound:
    """Return the bound that is the least for sizes as they are in use; each of them holds."""

    def usual(bound: _Bound) -> float:
        values = {product: [_WIDEST if name == _DATA else _USUAL for name in product] for product in bound}
        return float(sum(factor * prod(values[product]) for product, factor in bound.items()))

    return min(bounds, key=usual)


def _added(bounds: Iterable[_Bound]) -> _Bound:
    total: _Bound = {}
    for bound in bounds:
        for product, factor in bound.items():
            total[product] = total.get(product, 0) + factor
    return total


def _multiplied(bounds: Iterable[_Bound]) -> _Bound:
    total: _Bound = {(): 1}
    for bound in bounds:
        new: _Bound = {}
        for one, first in total.items():
            for other, second in bound.items():
                product = tuple(sorted((*one, *other)))
                new[product] = new.get(product, 0) + first * second
        total = new
    return total


def _joined(bounds: Iterable[_Bound]) -> _Bound:
    """Return a common bound of several values, the greatest coefficient of each product."""
    total: _Bound = {}
    for bound in bounds:
        for product, factor in bound.items():
            total[product] = max(total.get(product, 0), factor)
    return total
