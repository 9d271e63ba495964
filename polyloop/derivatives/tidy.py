"""Expressions in their shortest form: affine subscripts and conditions, which substitution has made long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl
import pymbolic.primitives as p

from polyloop.derivatives.relations import condition_of
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.rewrite import children, rebuild_changed, variables
from polyloop.kernel.domains import condition_set
from polyloop.poly.affine import affine_of, to_expression

__all__ = ["tidied"]


def tidied(
    expr: Expression,
    dims: Sequence[str],
    domain: isl.Set,
    terms: Mapping[tuple[str, ...], tuple[tuple[str, ...], isl.Set]],
    parameters: Sequence[str],
) -> Expression:
    """Return *expr*, evaluated at the points of *domain*, in a shorter form.

    ::

        if(n >= T - t + 1 - 1 and i >= 0, x[i + 1 - 1], 0)    over 0 <= i < n

        if(n + t >= T, x[i], 0)

    Parameters
    ----------
    terms
        For the inames of each reduction, those of its terms and their domain.
    """
    return _Tidying(terms, frozenset(parameters)).visited(expr, tuple(dims), domain)


@dataclass(frozen=True)
class _Tidying:
    terms: Mapping[tuple[str, ...], tuple[tuple[str, ...], isl.Set]]
    parameters: frozenset[str]

    def visited(self, expr: Expression, dims: tuple[str, ...], domain: isl.Set) -> Expression:
        """Return *expr* over the points of *domain*."""
        match expr:
            case p.Subscript():
                old = tuple(expr.index_tuple)
                index = tuple(self.index(each, dims, domain) for each in old)
                return rebuild_changed(expr, old, index)
            case p.If():
                return self.choice(expr, dims, domain)
            case Reduction() if expr.inames in self.terms:
                inner, terms = self.terms[expr.inames]
                return rebuild_changed(expr, (expr.expr,), (self.visited(expr.expr, inner, terms),))
        old = children(expr)
        return rebuild_changed(expr, old, tuple(self.visited(each, dims, domain) for each in old)) if old else expr

    def index(self, expr: Expression, dims: tuple[str, ...], domain: isl.Set) -> Expression:
        form = affine_of(expr) if variables(expr) <= self.parameters.union(dims) else None
        return self.visited(expr, dims, domain) if form is None else to_expression(form)

    def choice(self, expr: p.If, dims: tuple[str, ...], domain: isl.Set) -> Expression:
        """Return a choice, or the one of its sides that is ever taken."""
        holds = condition_set(expr.condition, domain, dims)
        if holds is None:
            parts = (expr.condition, expr.then, expr.else_)
            return rebuild_changed(expr, parts, tuple(self.visited(part, dims, domain) for part in parts))
        if holds.is_empty():
            return self.visited(expr.else_, dims, domain)
        condition = condition_of(holds, domain, dims)
        then = self.visited(expr.then, dims, holds)
        if condition is None:
            return then
        return p.If(condition, then, self.visited(expr.else_, dims, domain.subtract(holds).coalesce()))
