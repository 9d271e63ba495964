"""Linear forms and rows as readable C text: ``16 * by + ty < n``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Final, TypeVar

import numpy as np

from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import rewrite, tightened
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree import c_expr as c
from polyloop.codegen.tree.c_expr import Code
from polyloop.codegen.tree.indices import is_mark
from polyloop.expr.nodes import Expression
from polyloop.poly.affine import Affine, Floor, Var, affine_in, take_modulo
from polyloop.poly.axes import THREAD_AXES, Level, level_of

__all__ = [
    "bound_text",
    "condition_text",
    "form_order",
    "form_text",
    "is_index_arithmetic",
    "join_terms",
    "union_text",
]

A = TypeVar("A")
_RANK: Final = {Level.GRID: 0, Level.CLUSTER: 0, None: 1, Level.BLOCK: 2}


def join_terms(terms: Sequence[tuple[A, int]], const: int, atom: Callable[[A], Code]) -> Code:
    """Return ``c * atom + ... + const`` for terms in their order in the text.

    A positive constant comes first if nothing else is positive: ``7 - i``.
    """
    leads = const > 0 and bool(terms) and all(coefficient < 0 for _, coefficient in terms)
    first = c.integer(const) if leads else None
    rest: list[tuple[c.Operator, Code]] = []
    for var, coefficient in terms:
        code = atom(var)
        size = abs(coefficient)
        if first is not None:
            piece = code if size == 1 else c.binary(c.TIMES, c.integer(size), code)
            rest.append((c.INDEX_PLUS if coefficient > 0 else c.INDEX_MINUS if size == 1 else c.MINUS, piece))
        elif size == 1:
            first = code if coefficient > 0 else c.Unary(c.NEGATIVE, code)
        else:
            first = c.binary(c.TIMES, c.integer(coefficient), code)
    if first is None:
        return c.integer(const)
    if const and not leads:
        rest.append((c.INDEX_PLUS if const > 0 else c.MINUS, c.integer(abs(const))))
    return c.Binary(first, tuple(rest)) if rest else first


def form_order(term: tuple[Var, int]) -> tuple[bool, bool, int, int, str]:
    """Return the key that sorts terms: positive ones, named indices, large factors, blocks, loops, then threads."""
    var, coefficient = term
    rank = 3 if isinstance(var, Floor) else _RANK[level_of(var)]
    return (coefficient < 0, not is_mark(var), -abs(coefficient), rank, str(var))


def _without_multiples(form: Affine, scope: Scope) -> Affine:
    """Return *form* with ``n#`` replaced by ``n`` where that needs no division, and with constants substituted."""
    terms: list[tuple[Var, int]] = []
    const = form.const
    for var, coefficient in form.terms:
        if type(var) is not str:
            terms.append((var, coefficient))
        elif var.endswith("#") and coefficient % scope.divisibility[var[:-1]][0] == 0:
            modulus, residue = scope.divisibility[var[:-1]]
            terms.append((var[:-1], coefficient // modulus))
            const -= coefficient // modulus * residue
        else:
            value = scope.values.get(var)
            if isinstance(value, int):
                const += coefficient * value
            else:
                terms.append((var, coefficient))
    return Affine(tuple(terms), const)


def _upward(rest: Affine, floor: Floor | None, factor: int, context: Context) -> tuple[Affine, Floor | None, int]:
    """Return ``2 - (2 - i) mod 3`` as ``i mod 3``, if C's remainder is right for that one but not for the other."""
    if floor is None or factor >= 0 or context.implies(Affine(floor.terms, floor.const)):
        return rest, floor, factor
    last = floor.den - 1
    above = Affine(tuple((v, -c) for v, c in floor.terms), (last - floor.const) % floor.den)
    if not context.implies(above):
        return rest, floor, factor
    return rest.add(Affine((), factor * last)), Floor(above.terms, above.const, floor.den), -factor


@dataclass(frozen=True)
class _Quotient:
    """A parameter divided by a number that divides it."""

    name: str
    divisor: int


def _as_quotient(term: tuple[Var, int], scope: Scope) -> tuple[Var | _Quotient, int]:
    """Return a term with ``4 * (n / 32)`` replaced by ``n / 8``, for a parameter that 32 divides."""
    var, coefficient = term
    if not isinstance(var, str) or not var.endswith("#") or abs(coefficient) == 1:
        return term
    modulus, residue = scope.divisibility[var[:-1]]
    if residue or modulus % coefficient:
        return term
    return _Quotient(var[:-1], modulus // abs(coefficient)), 1 if coefficient > 0 else -1


def form_text(form: Affine, scope: Scope, context: Context) -> Code:
    """Return *form* in C; C's division is used for numerators that *context* proves nonnegative."""

    def atom(var: Var | tuple[str, Floor] | _Quotient) -> Code:
        if isinstance(var, Floor):
            return _division_text(var, scope, context)
        if isinstance(var, _Quotient):
            return c.binary(c.OVER, scope.value(var.name), c.integer(var.divisor))
        if isinstance(var, tuple):
            return _division_text(var[1], scope, context, "%")
        if var.endswith("#"):
            return c.binary(c.OVER, scope.value(var[:-1]), c.integer(scope.divisibility[var[:-1]][0]))
        return scope.bound_variable(var) if var in scope.memory.bounds else scope.value(var)

    form = _without_multiples(_joined(form, context), scope)
    if len(form.terms) > 1 or form.const or (form.terms and abs(form.terms[0][1]) > 1):
        scope.findings.magnitudes.record(form)
    form = scope.indices.take(form)
    plain, floor, factor = _upward(*take_modulo(form), context)
    ordered = sorted(plain.terms, key=form_order)
    terms: list[tuple[Var | tuple[str, Floor] | _Quotient, int]] = [_as_quotient(term, scope) for term in ordered]
    if floor is not None:
        terms.insert(0, (("%", floor), factor))
    return join_terms(terms, plain.const, atom)


def bound_text(
    bound: Sequence[Sequence[Affine]], scope: Scope, context: Context, outer: str, inner: str
) -> Code:
    """Return a bound in C: the *outer* extreme of the *inner* extremes of its forms."""
    extreme = scope.index_extreme
    return extreme(outer, [_extreme_text(forms, scope, context, inner) for forms in bound])


def _extreme_text(forms: Sequence[Affine], scope: Scope, context: Context, extreme: str) -> Code:
    """Return the extreme of *forms*; ``max(0, floor(x / d))`` as ``max(0, x) / d``, which C's division is right for."""
    zero = Affine((), 0)
    if extreme == "max" and len(forms) == 2 and zero in forms:
        (other,) = [form for form in forms if form != zero] or [zero]
        if len(other.terms) == 1 and not other.const:
            ((var, coefficient),) = other.terms
            if isinstance(var, Floor) and coefficient == 1 and not context.implies(Affine(var.terms, var.const)):
                texts = [form_text(form, scope, context) for form in (zero, Affine(var.terms, var.const))]
                return c.binary(c.OVER, scope.index_extreme(extreme, texts), c.integer(var.den))
    return scope.index_extreme(extreme, [form_text(form, scope, context) for form in forms])


def is_index_arithmetic(
    parts: Sequence[Expression], scope: Scope, type_of: Callable[[str], np.dtype[np.generic] | None]
) -> bool:
    """Return True if *parts* are affine in loop variables and sizes, and record their values in the magnitudes.

    Such parts must be computed like indices: exactly, in 32 bits if these are enough, else in 64.
    """
    forms = [form for part in parts if (form := affine_in(part, scope.values.keys())) is not None]
    names = {name for form in forms for name in form.names()}
    if len(forms) < len(parts) or not names or not names <= scope.values.keys():
        return False
    dtypes = [type_of(name) for name in names]
    if any(dtype is None or dtype.kind != "i" or dtype.itemsize < 4 for dtype in dtypes):
        return False
    constants = {name: Affine((), value) for name in names if isinstance(value := scope.values[name], int)}
    for form in forms:
        whole = rewrite(form.substitute(constants), scope.divisibility)
        if len(whole.terms) > 1 or (whole.terms and (whole.const or abs(whole.terms[0][1]) > 1)):
            scope.findings.magnitudes.record(whole)
    return True


def _joined(form: Affine, context: Context) -> Affine:
    """Return ``rest + floor(x / d)`` as one floor, if C's division is right for that one but not for ``x / d``."""
    floors = [(var, c) for var, c in form.terms if isinstance(var, Floor)]
    if len(floors) != 1 or floors[0][1] != 1 or (len(form.terms) == 1 and not form.const):
        return form
    floor = floors[0][0]
    numerator = Affine(floor.terms, floor.const)
    rest = Affine(tuple(term for term in form.terms if term[0] is not floor), form.const)
    total = numerator.add(rest, floor.den)
    if context.implies(numerator) or not context.implies(total):
        return form
    return Affine(((Floor(total.terms, total.const, floor.den), 1),), 0)


def _division_text(floor: Floor, scope: Scope, context: Context, operator: str = "/") -> Code:
    numerator, den = Affine(floor.terms, floor.const), floor.den
    is_plain = context.implies(numerator)
    if operator == "/":  # (n / 4 + 3) / 4, where 4 divides n, is (n + 12) / 16
        whole = _scaled(numerator, scope)
        numerator, den = whole, den * (whole.terms[0][1] // numerator.terms[0][1])
    inner = form_text(numerator, scope, context)
    if is_plain:
        return c.binary(c.OPERATORS[operator], inner, c.integer(den))
    operation = "floordiv" if operator == "/" else "floormod"
    return scope.call(operation, scope.index_dtype, inner, c.integer(den))


def _scaled(row: Affine, scope: Scope) -> Affine:
    """Return a row multiplied so that every ``n#`` in it can be written as ``n``."""
    for var, coefficient in row.terms:
        if isinstance(var, str) and var.endswith("#"):
            modulus = scope.divisibility[var[:-1]][0]
            row = row.scale(modulus // gcd(coefficient, modulus))
    return row


def condition_text(rows: Iterable[Affine], scope: Scope, context: Context) -> Code:
    """Return the conjunction of *rows* as a C condition."""
    if scope.memory.of_lanes:
        rows = [_of_all_lanes(row, context) for row in rows]
    left = [scope.indices.take(_without_multiples(_scaled(row, scope), scope)) for row in rows]
    parts: list[Code] = []
    while left:
        row = left.pop(0)
        opposite = row.scale(-1)
        if opposite in left:
            left.remove(opposite)
            parts.append(_equation_text(row, scope, context))
        else:
            parts.append(_inequality_text(row, scope, context))
    return c.conjunction(parts)


def union_text(cases: Sequence[Sequence[Affine]], scope: Scope, context: Context) -> Code:
    """Return the C condition that all rows of at least one of *cases* hold."""
    common = [row for row in cases[0] if all(row in case for case in cases)]
    texts = [condition_text(common, scope, context)] if common else []
    rests = [[row for row in case if row not in common] for case in cases]
    if all(rests):
        inside = context.add(common)
        texts.append(c.binary(c.OR, *[condition_text(rest, scope, inside) for rest in rests]))
    return c.conjunction(texts)


def _of_all_lanes(row: Affine, context: Context) -> Affine:
    """Return *row* without the lane if it holds for all lanes or for none, so that the condition is uniform."""
    coefficient, (low, high) = row.coefficient(THREAD_AXES[0]), context.interval(THREAD_AXES[0])
    if not coefficient or low is None or high is None:
        return row
    first, last = (tightened(row.substitute({THREAD_AXES[0]: Affine((), value)})) for value in (low, high))
    return first if first == last else row


def _equation_text(row: Affine, scope: Scope, context: Context) -> Code:
    rest, floor, factor = take_modulo(row)
    if floor is not None and not rest.terms and abs(factor) == 1:
        modulo = _division_text(floor, scope, context, "%")
        return _compared(modulo, "==", c.integer(-factor * rest.const))
    positive = Affine(tuple((v, c) for v, c in row.terms if c > 0), max(row.const, 0))
    negative = Affine(tuple((v, -c) for v, c in row.terms if c < 0), max(-row.const, 0))
    return _compared(form_text(positive, scope, context), "==", form_text(negative, scope, context))


def _compared(left: Code, operator: str, right: Code) -> Code:
    return c.binary(c.OPERATORS[operator], left, right)


def _inequality_text(row: Affine, scope: Scope, context: Context) -> Code:
    def text(form: Affine, const: int) -> Code:
        return form_text(form.add(Affine((), const)), scope, context)

    rest, floor, factor = take_modulo(row)
    if floor is not None and not rest.terms and abs(factor) == 1:
        return _remainder_text(_division_text(floor, scope, context, "%"), floor.den, factor, rest.const)
    above = Affine(tuple((v, c) for v, c in rest.terms if c > 0), 0)
    below = Affine(tuple((v, -c) for v, c in rest.terms if c < 0), 0)
    if floor is not None:  # the terms of a remainder stay on one side
        part = row.add(rest, -1)
        above, below = (above.add(part), below) if factor > 0 else (above, below.add(part, -1))
    const = rest.const
    if not above.terms:
        if len(below.terms) == 1 and below.terms[0][1] == 1 and context.implies(below.add(Affine((), -const))):
            return _compared(text(below, 0), "==", c.integer(const))  # c <= x <= c
        return _compared(text(below, 0), "<", c.integer(const + 1))
    if not below.terms:
        return _compared(text(above, 0), ">=", c.integer(-const))
    if const < 0:  # a + c <= b as a + (c - 1) < b, with the smaller constant
        return _compared(text(below, -const - 1), "<", text(above, 0))
    return _compared(text(below, 0), "<=", text(above, const))


def _remainder_text(remainder: Code, divisor: int, sign: int, const: int) -> Code:
    """Return ``sign*remainder + const >= 0``, as an equation where one remainder is left."""
    if sign > 0:
        return _compared(remainder, "==" if -const == divisor - 1 else ">=", c.integer(-const))
    return _compared(remainder, "<", c.integer(const + 1)) if const else _compared(remainder, "==", c.integer(0))
