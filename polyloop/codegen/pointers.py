"""Pointer aliasing: whether a compiler may merge loads through ``__restrict__`` pointers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pymbolic.primitives as p

from polyloop.expr.nodes import Expression, array_name, element_of, targets_of
from polyloop.expr.rewrite import children, variables
from polyloop.schedule.plan import Statement

__all__ = ["may_merge_loads"]


def may_merge_loads(statements: Iterable[Statement], arrays: frozenset[str]) -> bool:
    """Return whether one load may stand for reads of two of *arrays*, of which one is stored to as well.

    NVRTC (seen from 13.0 to 13.5) makes one load of ``c ? x[i] : y[i]``, from either address. Where ``x`` is ``const``
    and ``__restrict__`` it loads through the read-only cache and moves the load ahead of stores to ``y``, whose new
    values it misses. Where this may happen, what is only read is not declared to be ``__restrict__``.
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
    """Yield the subscripts of what a statement writes."""
    for target in targets_of(lhs):
        element = element_of(target)
        if isinstance(element, p.Subscript):
            yield from element.index_tuple


def _has_choice(expr: Expression) -> bool:
    """Return whether what *expr* reads depends on a condition in it."""
    return isinstance(expr, p.If | p.LogicalAnd | p.LogicalOr) or any(map(_has_choice, children(expr)))
