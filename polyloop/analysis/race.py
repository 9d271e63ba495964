"""Races, and the synchronization that is needed to have none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import islpy as isl

from polyloop.analysis.lowering import Access
from polyloop.analysis.nosync import not_denied
from polyloop.analysis.order import Conflict, conflict_pairs, crossing, crossing_conflicts, equal_on
from polyloop.analysis.placement import Axes, Placed, Placement
from polyloop.analysis.warps import NO_WARPS, scope_in_block
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Scope
from polyloop.poly.affine import Affine

__all__ = ["Need", "needs", "shared_arrays"]

@dataclass(frozen=True, eq=False)
class Need:
    """Two accesses to one cell from different threads, one of them a write.

    ``scope`` is None where nothing can order them: a race.  The conflict's relation holds some of
    the pairs on different threads.
    """

    array: str
    first: Access
    second: Access
    conflict: Conflict
    scope: Scope | None


def shared_arrays(placement: Placement) -> list[str]:
    """Return the written arrays that several threads see."""
    written = dict.fromkeys(write.array for s in placement.statements.values() for write in s.lowered.writes)
    return [name for name in written if placement.spaces[name] is not AddressSpace.PRIVATE]


def needs(placement: Placement, array: str, warp_size: int = NO_WARPS) -> Iterator[Need]:
    """Yield what has to be synchronized, or cannot be, on *array*, where *warp_size* threads in a row are a warp."""
    axes = placement.axes
    if not axes.all:
        return
    statements = placement.statements.values()
    accesses: list[tuple[Placed, Access, bool]] = []
    for statement in statements:
        accesses.extend((statement, access, True) for access in statement.lowered.writes_to(array))
        accesses.extend((statement, access, False) for access in statement.lowered.reads if access.array == array)
    for number, (first, a, first_writes) in enumerate(accesses):
        for other, (second, b, second_writes) in enumerate(accesses):
            if not (first_writes or second_writes):
                continue
            if first_writes and second_writes and first.lowered.commutes_with(second.lowered):
                continue
            yield from _pair(placement, array, (first, a), (second, b), other >= number, warp_size)


def _pair(
    placement: Placement,
    array: str,
    left: tuple[Placed, Access],
    right: tuple[Placed, Access],
    once: bool,
    warp_size: int,
) -> Iterator[Need]:
    (first, a), (second, b) = left, right
    if first is second and not first.lowered.is_write(a) and not first.lowered.is_write(b):
        return
    axes = placement.axes
    agreeing = agreeing_axes(placement, first, a, second, b)
    differing = tuple(axis for axis in axes.all if axis not in agreeing)
    if not differing:
        return
    pairs = not_denied(placement, first, a, second, b, conflict_pairs(placement, first, a, second, b))
    blocks = tuple(axis for axis in axes.group if axis in differing)
    if blocks and placement.spaces[array] is AddressSpace.GLOBAL:
        across = crossing(pairs, first, second, blocks)
        if across is not None:
            if once:
                yield from _across_blocks(placement, array, left, right, across)
            pairs = equal_on(pairs, first, second, blocks)
            differing = tuple(axis for axis in differing if axis not in blocks)
    for conflict in crossing_conflicts(placement, first, second, pairs, differing):
        yield Need(array, a, b, conflict, scope_in_block(placement, conflict, warp_size))


def _across_blocks(
    placement: Placement, array: str, left: tuple[Placed, Access], right: tuple[Placed, Access], across: isl.Map
) -> Iterator[Need]:
    (first, a), (second, b) = left, right
    if first is second:
        yield Need(array, a, b, Conflict(first, second, across, simultaneous=True), None)
        return
    place_a, place_b = placement.program.places[first.name], placement.program.places[second.name]
    if place_a[0] == place_b[0]:
        yield Need(array, a, b, Conflict(first, second, across, simultaneous=True), None)
    elif place_a < place_b:
        yield Need(array, a, b, Conflict(first, second, across), Scope.GRID)
    else:
        yield Need(array, b, a, Conflict(second, first, across.reverse()), Scope.GRID)


def agreeing_axes(placement: Placement, first: Placed, a: Access, second: Placed, b: Access) -> frozenset[str]:
    """Return axes on which two accesses to one cell must have the same index, as the forms show at once.

    That is so for an axis that both use alone as a subscript, and for all axes of a mixed-radix subscript such
    as ``16*g.0 + l.0`` with ``l.0 < 16``.
    """
    space = placement.spaces[a.array]
    found: set[str] = set()
    if space is AddressSpace.LOCAL:
        found.update(placement.axes.group)
    for x, y in zip(first.indices(a), second.indices(b), strict=True):
        if x is not None and x == y:
            found |= _mixed_radix(x, placement.axes)
    return frozenset(found)


def _mixed_radix(form: Affine, axes: Axes) -> frozenset[str]:
    """Return the axes of *form* if equal values of it imply equal values of all of them."""
    span = 1
    names = []
    for var, coefficient in sorted(form.terms, key=lambda term: abs(term[1])):
        if not isinstance(var, str) or var not in axes.all or coefficient < span:
            return frozenset()
        extent = axes.local.get(var)
        names.append(var)
        if extent is None and len(names) < len(form.terms):
            return frozenset()
        span += coefficient * ((extent or 1) - 1)
    return frozenset(names)
