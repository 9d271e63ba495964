"""Launch checks: assumptions, accesses inside arrays, and index arithmetic that fits 32 bits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod

import islpy as isl
import pymbolic.primitives as p

from polyloop.codegen.expressions.magnitude import Polynomial
from polyloop.codegen.expressions.spans import magnitude, span, total
from polyloop.codegen.loops.context import Context
from polyloop.codegen.loops.rows import Divisibility, Piece, in_order, rewrite, rows_of
from polyloop.codegen.program import LaunchCheck
from polyloop.expr.dtypes import integer_limits, is_integer
from polyloop.expr.nodes import Expression
from polyloop.expr.printer import show
from polyloop.expr.rewrite import substitute
from polyloop.kernel.arrays import Argument, ArrayArg, ValueArg
from polyloop.kernel.kernel import Condition
from polyloop.poly.affine import Affine, Floor, Var, to_expression
from polyloop.poly.sets import settled

__all__ = ["assumption_checks", "condition_check", "index_checks", "natural_names", "row_conditions"]

_WIDE = 64
_PAIR = 2


def _sides(form: Affine) -> tuple[Affine, Affine]:
    """Return the positive part of a form and the negated rest, so that ``form = left - right``."""
    positive = tuple((v, c) for v, c in form.terms if c > 0)
    negative = tuple((v, -c) for v, c in form.terms if c < 0)
    return Affine(positive, max(form.const, 0)), Affine(negative, max(-form.const, 0))


def _modulo(form: Affine) -> tuple[Affine, int] | None:
    """Return ``x`` and ``d`` if *form* is a multiple of ``x - d * floor(x / d)`` and a constant."""
    for var, coefficient in form.terms:
        if isinstance(var, Floor) and abs(coefficient) == var.den:
            sign = -coefficient // var.den
            inner = Affine(var.terms, var.const)
            if form.add(inner, -sign).terms == ((var, coefficient),):
                return inner, var.den
    return None


def row_conditions(piece: Piece) -> list[Expression]:
    """Return the rows of a piece as comparisons of expressions."""
    left = [Affine(terms, const) for terms, const in piece.items()]
    found: list[Expression] = []
    while left:
        form = left.pop(0)
        opposite = form.scale(-1)
        operator = ">="
        if opposite in left:
            left.remove(opposite)
            operator = "=="
        modulo = _modulo(form) if operator == "==" else None
        if modulo is not None:
            inner, den = modulo
            sign = next(-c // den for v, c in form.terms if isinstance(v, Floor) and v.den == den)
            remainder = -sign * form.add(inner, -sign).const
            found.append(p.Comparison(p.Remainder(to_expression(inner), den), "==", remainder))
            continue
        greater, less = _sides(form)
        if operator == "==" and not greater.terms:
            greater, less = less, greater
        if greater.terms:
            found.append(p.Comparison(to_expression(greater), operator, to_expression(less)))
        else:
            found.append(p.Comparison(to_expression(less), "<=", to_expression(greater)))
    return found


def assumption_checks(assumptions: isl.Set) -> tuple[LaunchCheck, ...]:
    """Return the conditions that *assumptions* consists of, one check each."""
    pieces = _pieces(assumptions)
    if not pieces:
        return (LaunchCheck(False, "the assumptions contradict each other"),)
    if len(pieces) == 1:
        return tuple(LaunchCheck(c, f"the kernel assumes {show(c)}") for c in row_conditions(pieces[0]))
    condition = _expression(assumptions)
    return (LaunchCheck(condition, f"the kernel assumes {show(condition)}"),)


def condition_check(condition: Condition) -> LaunchCheck:
    """Return the check that an access stays inside its array; its message states the condition."""
    if condition.inside is not None:
        message = f"{condition.access} stays inside {condition.array}, for every instance"
        return LaunchCheck(condition.inside, message, "out-of-bounds", "pass arrays and sizes that fit together")
    needs = f"{condition.access} stays inside {condition.array}, only if {show(_expression(condition.needs))}"
    if not condition.where.plain_is_universe():
        needs += f" (where {show(_expression(condition.where))})"
    return LaunchCheck(_expression(condition.set), needs, "out-of-bounds", "pass arrays and sizes that fit together")


def _pieces(domain: isl.Set) -> list[Piece]:
    return in_order(rows_of(basic, (), {}) for basic in settled(domain).compute_divs().get_basic_sets())


def _expression(domain: isl.Set) -> Expression:
    """Return a parameter set as one expression, with its pieces sorted, as their order in ISL is arbitrary."""
    found = [_all(row_conditions(piece)) for piece in _pieces(domain)]
    cases = tuple(sorted(found, key=lambda case: (len(show(case)), show(case))))
    return cases[0] if len(cases) == 1 else p.LogicalOr(cases)


def _all(conditions: Sequence[Expression]) -> Expression:
    return conditions[0] if len(conditions) == 1 else p.LogicalAnd(tuple(conditions))


def _fits(argument: ValueArg, most: int) -> bool:
    """Return True if all values of a parameter's type are at most *most*."""
    dtype = argument.dtype
    return dtype is None or not is_integer(dtype) or integer_limits(dtype)[1] <= most


def natural_names(names: Iterable[str], context: Context, divisibility: Divisibility) -> list[str]:
    """Return the parameters among *names* that are known not to be negative."""
    return [name for name in names if context.implies(rewrite(Affine.variable(name), divisibility))]


def index_checks(
    arguments: Sequence[Argument],
    parameters: Collection[str],
    bounds: Iterable[Polynomial],
    context: Context,
    natural: Collection[str],
    bits: int = 32,
    wide: Iterable[Polynomial] = (),
) -> tuple[LaunchCheck, ...]:
    """Return the conditions under which index arithmetic of *bits* bits is exact.

    Parameters
    ----------
    arguments
        Arrays of more than 2^31 - 1 elements need wider indices.
    parameters
        Names of the arguments that are used in index arithmetic.
    bounds
        Upper bounds of intermediate results, as polynomials in the absolute values of parameters.
    context
        Assumptions about the parameters; a check that follows from them is left out.
    natural
        Parameters that are known not to be negative.
    wide
        As *bounds*, of results that are computed in 64 bits.
    """
    most = 2 ** (bits - 1) - 1
    values = [a for a in arguments if isinstance(a, ValueArg) and a.name in parameters]
    limits = {a.name: integer_limits(a.dtype) for a in values if a.dtype is not None and is_integer(a.dtype)}
    own = {name: max(map(abs, pair)) for name, pair in limits.items()}
    checks, known = [], list[Polynomial]()
    for argument in arguments:
        if isinstance(argument, ValueArg) and argument.name in parameters:
            checks += _parameter_checks(argument, context, bits)
        if isinstance(argument, ArrayArg) and argument.shape and argument.strides:
            count = span(argument)
            product = _monomial(count)
            if product is None or _greatest(product, own) > most:
                message = f"'{argument.name}' has more than 2^{bits - 1} - 1 elements"
                checks.append(LaunchCheck(p.Comparison(count, "<=", most), message, "index-overflow"))
            known += [] if product is None else [product]
    known += [{(name,): 1} for name in own]  # their types, or checks of their own, keep these small enough
    for width, few in ((bits, bounds), (_WIDE, wide)):
        largest = 2 ** (width - 1) - 1
        for bound in _dominating(few, known):
            if _greatest(bound, own) > largest and not _is_known(bound, context, natural, largest):
                expr = _expression_of(bound, natural)
                message = f"{show(expr)} does not fit into {width} bits"
                checks.append(LaunchCheck(p.Comparison(expr, "<=", largest), message, "index-overflow"))
    return tuple({check.condition: check for check in reversed(checks)}.values())[::-1]


def _greatest(bound: Polynomial, own: Mapping[str, int]) -> int:
    """Return the greatest value of a bound for parameters of any values up to their *own* greatest ones."""
    assert {name for product in bound for name in product} <= own.keys(), f"{bound} holds more than parameters"
    return sum(factor * prod(own[name] for name in product) for product, factor in bound.items())


def _parameter_checks(argument: ValueArg, context: Context, bits: int) -> list[LaunchCheck]:
    """Return the conditions under which a parameter fits into an index."""
    most, name = 2 ** (bits - 1) - 1, p.Variable(argument.name)
    message, found = f"{argument.name} does not fit into {bits} bits", list[LaunchCheck]()
    if not _fits(argument, most):
        found.append(LaunchCheck(p.Comparison(name, "<=", most), message, "index-overflow"))
        is_signed = argument.dtype is not None and integer_limits(argument.dtype)[0] < 0
        if is_signed and not context.implies(Affine(((argument.name, 1),), most)):
            found.append(LaunchCheck(p.Comparison(name, ">=", -most - 1), message, "index-overflow"))
    return found


def _is_known(bound: Polynomial, context: Context, natural: Collection[str], most: int) -> bool:
    """Return True if a linear bound is known to be at most *most*."""
    if any(len(product) > 1 for product in bound):
        return False
    form = _affine(bound)
    return form.names() <= set(natural) and context.implies(Affine((), most).add(form, -1))


def _affine(bound: Polynomial) -> Affine:
    terms: dict[Var, int] = {product[0]: factor for product, factor in bound.items() if product}
    return Affine.make(terms, bound.get((), 0))


def _expression_of(bound: Polynomial, natural: Collection[str]) -> Expression:
    """Return a bound as an expression of the parameters."""
    names = {name for product in bound for name in product}
    values = {n: p.Variable(n) if n in natural else magnitude(p.Variable(n)) for n in names}
    if all(len(product) < _PAIR for product in bound):
        return substitute(to_expression(_affine(bound)), values)
    terms: list[Expression] = []
    for product, factor in sorted(bound.items(), key=lambda term: (-len(term[0]), term[0])):
        parts = [*([factor] if factor != 1 or not product else []), *(values[name] for name in product)]
        terms.append(parts[0] if len(parts) == 1 else p.Product(tuple(parts)))
    return total(terms)


def _monomial(count: Expression) -> Polynomial | None:
    """Return a product of numbers and parameters as a polynomial, None if it is no such product."""
    factors = count.children if isinstance(count, p.Product) else (count,)
    names = [factor.name for factor in factors if isinstance(factor, p.Variable)]
    numbers = [factor for factor in factors if isinstance(factor, int)]
    if len(names) + len(numbers) < len(factors) or any(number < 0 for number in numbers):
        return None
    return {tuple(sorted(names)): prod(numbers)}


def _dominating(bounds: Iterable[Polynomial], known: Iterable[Polynomial]) -> list[Polynomial]:
    """Return *bounds* without those that another one, or one that is *known* to be small enough, dominates."""
    kept = list(known)
    count = len(kept)
    for bound in sorted(bounds, key=_size):
        if not any(_at_most(bound, other) for other in kept):
            kept.append(bound)
    return kept[count:]


def _size(bound: Polynomial) -> tuple[int, int, int]:
    """Return the key that sorts bounds, those first that may dominate others."""
    factors = sum(factor for product, factor in bound.items() if product)
    return -max(map(len, bound), default=0), -factors, -bound.get((), 0)


def _at_most(small: Polynomial, large: Polynomial) -> bool:
    return all(factor <= large.get(product, 0) for product, factor in small.items())
