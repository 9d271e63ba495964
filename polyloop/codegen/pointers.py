"""Pointer aliasing: detection of loads that a compiler may merge through ``__restrict__`` pointers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, array_name, element_of, targets_of
from polyloop.expr.rewrite import children, variables
from polyloop.schedule.plan import Statement

__all__ = ["may_merge_loads"]


def may_merge_loads(statements: Iterable[Statement], arrays: frozenset[str]) -> bool:
    """Return True if a compiler may merge loads of two of *arrays* into one, and one of them is stored to as well.

    NVRTC (seen from 13.0 to 13.5) makes one load of ``c ? x[i] : y[i]``, from either address. If ``x`` is ``const`` and
    ``__restrict__``, it loads through the read-only cache and moves the load ahead of stores to ``y``, whose new values
    it misses. So arrays that are only read are not declared ``__restrict__`` where this may happen.
    """
    known = tuple(statements)
    stored = arrays.intersection([array_name(target) for s in known for target in targets_of(s.lhs)])
    if not stored:
        return False
    read: set[str] = set()
    reading: list[tuple[Statement, tuple[Expression, ...]]] = []
    for statement in known:
        parts = (statement.rhs, *statement.predicates, *_subscripts(statement.lhs))
        found = frozenset[str]().union(*map(variables, parts)) & arrays
        if found:
            read |= found
            reading.append((statement, parts))
            if len(reading) > 1 and not stored.isdisjoint(read):
                return True
    if stored.isdisjoint(read):
        return False
    return any(statement.predicates or any(map(_has_choice, parts)) for statement, parts in reading)


def _subscripts(lhs: Expression) -> Iterator[Expression]:
    """Yield the subscripts of the assignee of a statement."""
    for target in targets_of(lhs):
        element = element_of(target)
        if isinstance(element, p.Subscript):
            yield from element.index_tuple


def _has_choice(expr: Expression) -> bool:
    """Return True if reads of *expr* depend on a condition in it."""
    return isinstance(expr, p.If | p.LogicalAnd | p.LogicalOr) or any(map(_has_choice, children(expr)))
