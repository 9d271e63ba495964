"""Guards inside expressions: conditions under which an operand is evaluated, and its reads happen.

``if(c, x, y)`` evaluates one of ``x`` and ``y``; ``and`` and ``or`` stop at the first operand that decides, as in C.  A
reduction is evaluated ahead of the expression around it, so conditions around it do not guard its reads, unless they
become part of its terms (:mod:`polyloop.program.conditions`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import islpy as isl
import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.rewrite import children
from polyloop.kernel.arrays import ValueArg
from polyloop.kernel.domains import condition_set
from polyloop.kernel.kernel import LoopKernel, memoised
from polyloop.poly.affine import affine_in

__all__ = ["Guard", "decided_by_data", "exact_parameters", "guarded_children", "guarded_domain", "guards_a_reduction"]

Guard: TypeAlias = tuple[Expression, bool]
"""A condition, and the value that it must have for an operand to be evaluated."""


def guarded_children(expr: Expression) -> list[tuple[Expression, tuple[Guard, ...]]]:
    """Return the operands of *expr* in order, each with the conditions under which *expr* evaluates it."""
    match expr:
        case p.If():
            condition = expr.condition
            return [(condition, ()), (expr.then, ((condition, True),)), (expr.else_, ((condition, False),))]
        case p.LogicalAnd() | p.LogicalOr():
            goes_on = isinstance(expr, p.LogicalAnd)
            before = [(child, goes_on) for child in expr.children]
            return [(child, tuple(before[:number])) for number, child in enumerate(expr.children)]
        case _:
            return [(child, ()) for child in children(expr)]


def guards_a_reduction(expr: Expression) -> bool:
    """Return True if *expr* has a reduction under a condition, which does not keep it from being computed."""
    return any(
        (bool(guards) and _has_reduction(child)) or guards_a_reduction(child)
        for child, guards in guarded_children(expr)
    )


def _has_reduction(expr: Expression) -> bool:
    return isinstance(expr, Reduction) or any(_has_reduction(child) for child in children(expr))


def decided_by_data(guards: Sequence[Guard], dims: Sequence[str], parameters: Collection[str]) -> tuple[Guard, ...]:
    """Return those of *guards* that are not affine in *dims* and *parameters*, so no domain expresses them."""
    known = {*dims, *parameters}
    return tuple((condition, value) for condition, value in guards if not _is_affine(condition, known))


def _is_affine(condition: Expression, names: set[str]) -> bool:
    match condition:
        case p.Comparison():
            forms = (affine_in(condition.left, names), affine_in(condition.right, names))
            return all(form is not None and form.names() <= names for form in forms)
        case p.LogicalAnd() | p.LogicalOr():
            return all(_is_affine(child, names) for child in condition.children)
        case p.LogicalNot():
            return _is_affine(condition.child, names)
        case _:  # an integer by itself holds where it is not 0
            form = affine_in(condition, names)
            return form is not None and form.names() <= names


def guarded_domain(
    domain: isl.Set, dims: Sequence[str], guards: Sequence[Guard], parameters: Collection[str]
) -> isl.Set:
    """Return the points of *domain* where *guards* may hold; the object *domain* if these are all points.

    Conditions that are not affine in *dims* and *parameters* may hold everywhere.
    """
    known = {*dims, *parameters}
    result = domain
    for condition, value in guards:
        result = _narrowed(condition, result, dims, known, value)
    if result is domain or domain.is_subset(result):
        return domain
    return result.coalesce()


def _narrowed(expr: Expression, domain: isl.Set, dims: Sequence[str], known: set[str], value: bool) -> isl.Set:
    """Return the points of *domain* where *expr* may have *value*."""
    match expr:
        case p.LogicalNot():
            return _narrowed(expr.child, domain, dims, known, not value)
        case p.LogicalAnd() | p.LogicalOr() if isinstance(expr, p.LogicalAnd) == value:
            for child in expr.children:
                domain = _narrowed(child, domain, dims, known, value)
            return domain
        case p.LogicalAnd() | p.LogicalOr():
            parts = [_narrowed(child, domain, dims, known, value) for child in expr.children]
            if any(part is domain for part in parts):
                return domain
            result = parts[0]
            for part in parts[1:]:
                result = result.union(part)
            return result
        case _:
            holds = condition_set(expr, domain, dims, not value, known)
            return domain if holds is None else holds


@memoised
def exact_parameters(kernel: LoopKernel) -> frozenset[str]:
    """Return the parameters without wrap-around in comparisons: those that are not of unsigned or short types."""
    wrapping = {
        argument.name
        for argument in kernel.arguments
        if isinstance(argument, ValueArg)
        and argument.dtype is not None
        and (argument.dtype.kind != "i" or argument.dtype.itemsize < 4)
    }
    return frozenset(kernel.parameters) - wrapping
