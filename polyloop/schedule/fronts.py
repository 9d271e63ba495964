"""Peeled prologues of loops: their ends, and the barriers that they need.

A prologue is *quiet*, and needs no barrier, if only iterations after it conflict with its accesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from polyloop.kernel.tree import Barrier, Loop, Scope, Tree, runs
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.sets import constant_bounds
from polyloop.schedule.plan import Front
from polyloop.sync.races import Need

__all__ = ["fronts_of"]


def fronts_of(
    placement: Placement, found: Iterable[Need], tree: Tree, slabs: Mapping[str, tuple[int, int]]
) -> dict[str, Front]:
    """Return the peeled prologues of loops, with the numbers of iterations in *slabs*.

    A prologue is quiet if each access that conflicts with it is in a later iteration, behind a barrier of the first
    iteration after the prologue.
    """
    needs = [need for need in found if need.scope is not None]
    fronts = {}
    loops = [*_loops(tree)]
    names = [loop.iname for loop in loops]
    for loop in loops:
        front = slabs.get(loop.iname, (0, 0))[0]
        inside = [placement.statements[name] for name in runs(loop.body)]
        if front and names.count(loop.iname) == 1 and all(loop.iname in statement.dims for statement in inside):
            starts = [_least(statement, loop.iname) for statement in inside]
            known = [start for start in starts if start is not None]
            if len(known) == len(starts):
                end = min(known) + front
                fronts[loop.iname] = Front(end, _is_quiet(loop, needs, end))
    return fronts


def _loops(tree: Tree) -> Iterator[Loop]:
    for node in tree:
        if isinstance(node, Loop):
            yield node
            yield from _loops(node.body)


def _least(statement: Placed, iname: str) -> int | None:
    return constant_bounds(statement.domain, statement.dims.index(iname))[0]


def _is_quiet(loop: Loop, needs: Iterable[Need], first: int) -> bool:
    """Return True if each conflict with iterations of *loop* before *first* has a barrier from *first* on."""
    position = {name: number for number, node in enumerate(loop.body) for name in runs((node,))}
    inner = {node.iname for node in _loops(loop.body)}
    barriers = [
        (number, node.scope) for number, node in enumerate(loop.body) if isinstance(node, Barrier) and node.name is None
    ]
    for need in needs:
        conflict = need.conflict
        sides = (conflict.first, conflict.second)
        within = [side.name in position for side in sides]
        if not any(within):
            continue
        if not all(within) or conflict.loop not in {None, loop.iname, *inner}:
            return False
        starts = [_least(side, loop.iname) for side in sides]
        if None in starts:
            return False
        if starts[0] is not None and starts[0] >= first:
            continue  # both sides run behind the prologue
        if starts[1] is None or starts[1] < first:
            return False
        wide = {Scope.WARP, Scope.BLOCK, Scope.CLUSTER}
        wide -= set() if need.scope is Scope.WARP else {Scope.WARP}
        wide -= {Scope.BLOCK} if need.scope is Scope.CLUSTER else set()
        if not any(number <= position[sides[1].name] and scope in wide for number, scope in barriers):
            return False
    return True
