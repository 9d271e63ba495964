"""Launch boundaries, and the values that are live across them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from polyloop.dataflow.value_flow import flow_of, is_exact, may_flow_of
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Barrier, Scope, runs
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.sync.races import Need

__all__ = ["launch_cuts", "launch_of", "passages"]


def launch_cuts(placement: Placement, found: Iterable[Need]) -> list[int]:
    """Return the positions at the root of the tree where one launch has to end and the next begin.

    They are as few as possible.  Where there is a choice, as few private and shared variables as possible are in use
    on both sides of each, and after that it is the latest.
    """
    places = placement.program.places
    spans = []
    for need in found:
        if need.scope is Scope.GRID:
            first, second = places[need.conflict.first.name][0], places[need.conflict.second.name][0]
            assert isinstance(first, int), "a path begins with a position"
            assert isinstance(second, int), "a path begins with a position"
            spans.append((first, second))
    cuts = _written_cuts(placement)
    free: dict[int, int] = {}
    for first, second in sorted(spans, key=lambda span: span[1]):
        if any(first < cut <= second for cut in cuts):
            continue
        cut = next((cut for cut in free if first < cut <= second), second)
        free[cut] = max(free.get(cut, 0), first + 1)
    if free:
        homes = _homes(placement)
        cuts += [min(range(low, cut + 1), key=lambda at: (_living(homes, at), -at)) for cut, low in free.items()]
    return sorted(set(cuts))


def _homes(placement: Placement) -> list[tuple[int, int]]:
    """Return the first and the last position at the root where each private or shared variable is used."""
    found: dict[str, tuple[int, int]] = {}
    for placed in placement.statements.values():
        position = placement.program.places[placed.name][0]
        assert isinstance(position, int), "a path begins with a position"
        for access in placed.lowered.accesses:
            if placement.spaces[access.array] is not AddressSpace.GLOBAL:
                low, high = found.get(access.array, (position, position))
                found[access.array] = min(low, position), max(high, position)
    return list(found.values())


def _living(homes: Iterable[tuple[int, int]], position: int) -> int:
    """Return the number of variables used on both sides of *position*."""
    return sum(low < position <= high for low, high in homes)


def _written_cuts(placement: Placement) -> list[int]:
    """Return the positions at the root of the tree of the user's global barriers that divide something."""
    tree = placement.program.tree
    cuts: list[int] = []
    if placement.axes.all:
        begin = 0
        for position, node in enumerate(tree):
            divides = isinstance(node, Barrier) and node.scope is Scope.GRID
            if divides and any(runs(tree[begin:position])) and any(runs(tree[position:])):
                cuts.append(position)
                begin = position
    return cuts


def launch_of(placement: Placement, statement: Placed, cuts: Iterable[int]) -> int:
    """Return the number of the launch that executes *statement*."""
    position = placement.program.places[statement.name][0]
    assert isinstance(position, int), "a path begins with a position"
    return sum(position >= cut for cut in cuts)


def passages(placement: Placement, cuts: Sequence[int]) -> dict[str, list[tuple[int, int]]]:
    """Return private or shared variable -> pairs of launches (writer, reader) between which it carries values."""
    homes: dict[str, set[int]] = {}
    for placed in placement.statements.values():
        for access in placed.lowered.accesses:
            if placement.spaces[access.array] is not AddressSpace.GLOBAL:
                homes.setdefault(access.array, set()).add(launch_of(placement, placed, cuts))
    found = {}
    for name in sorted(name for name, launches in homes.items() if len(launches) > 1):
        flow = flow_of(placement, name) if is_exact(placement, name) else may_flow_of(placement, name)
        pairs = {
            (launch_of(placement, source, cuts), launch_of(placement, reader, cuts))
            for (reader, _), sources in zip(flow.reads, flow.sources, strict=True)
            for source, link in sources
            if not link.is_empty()
        }
        if crossing := sorted((a, b) for a, b in pairs if a != b):
            found[name] = crossing
    return found
