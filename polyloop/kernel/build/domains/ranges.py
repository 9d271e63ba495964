"""Ranges of the inames of statements, in domains that several statements share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyloop.errors import KernelError
from polyloop.expr.nodes import Expression, Reduction
from polyloop.expr.rewrite import children
from polyloop.kernel.build.domains.shared_domains import bare, taken_apart
from polyloop.kernel.build.draft import Draft, fail, site_of
from polyloop.kernel.kernel import Domain

__all__ = ["outermost", "own_ranges"]


def own_ranges(pieces: Sequence[Domain], drafts: Sequence[Draft]) -> tuple[Domain, ...]:
    """Return the domains, taken apart where some statement or reduction would not run because another has no loop."""
    if all(len(piece.inames) == 1 for piece in pieces):
        return tuple(map(bare, pieces))
    groups = {group: draft for draft in reversed(drafts) for group in _groups(draft.expanded, frozenset(draft.inames))}
    if all(group.isdisjoint(piece.inames) or group.issuperset(piece.inames) for group in groups for piece in pieces):
        return tuple(map(bare, pieces))
    found: list[Domain] = []
    for piece in pieces:
        parts = (piece,) if len(piece.inames) == 1 else taken_apart(piece, groups)
        if isinstance(parts, frozenset):
            group = min(filter(parts.issubset, groups), key=lambda group: len(group.intersection(piece.inames)))
            raise _open_range(groups[group], piece, parts)
        found += map(bare, parts)
    return tuple(found)


def _groups(expr: Expression, around: frozenset[str]) -> Iterator[frozenset[str]]:
    """Yield the inames around a statement, and those around the body of each reduction in it."""
    yield around
    for reduction in outermost(expr):
        yield from _groups(reduction.expr, around.union(reduction.inames))


def _open_range(draft: Draft, piece: Domain, kept: frozenset[str]) -> KernelError:
    own, others = (", ".join(x for x in piece.inames if (x in kept) is side) for side in (True, False))
    return fail(
        "open-range",
        f"the domain does not say whether '{draft.id}' runs where {others} has no value",
        notes=(f"its alternatives bound {own} and {others} by each other",),
        hints=(f"write two domains: one of {own}, and one of {others}, the bounds of which may use {own}",),
        site=site_of(draft.parsed, draft.id),
    )


def outermost(expr: Expression) -> list[Reduction]:
    """Return the reductions of *expr* that are not inside another one, left to right."""
    if isinstance(expr, Reduction):
        return [expr]
    return [reduction for child in children(expr) for reduction in outermost(child)]
