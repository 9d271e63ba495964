"""First iterations of loops that stand apart and need no barriers, because only later ones meet what they touch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from polyloop.analysis.placement import Placed, Placement
from polyloop.analysis.race import Need
from polyloop.kernel.tree import Barrier, Loop, Scope, Tree, runs
from polyloop.poly.sets import constant_bounds

__all__ = ["quiet_fronts"]


def quiet_fronts(
    placement: Placement, found: Iterable[Need], tree: Tree, slabs: Mapping[str, tuple[int, int]]
) -> frozenset[str]:
    """Return the loops whose first iterations, as many as *slabs* says, need none of the barriers of their bodies.

    That is so where all that has to wait for them runs later, and behind a barrier of the first iteration after them.
    """
    needs = [need for need in found if need.scope is not None]
    quiet = set()
    for loop in _loops(tree):
        front = slabs.get(loop.iname, (0, 0))[0]
        inside = [placement.statements[name] for name in runs(loop.body)]
        if front and all(loop.iname in statement.dims for statement in inside):
            starts = [_least(statement, loop.iname) for statement in inside]
            known = [start for start in starts if start is not None]
            if len(known) == len(starts) and _is_quiet(loop, needs, min(known) + front):
                quiet.add(loop.iname)
    return frozenset(quiet)


def _loops(tree: Tree) -> Iterator[Loop]:
    for node in tree:
        if isinstance(node, Loop):
            yield node
            yield from _loops(node.body)


def _least(statement: Placed, iname: str) -> int | None:
    return constant_bounds(statement.domain, statement.dims.index(iname))[0]


def _is_quiet(loop: Loop, needs: Iterable[Need], first: int) -> bool:
    """Return whether each barrier for iterations of *loop* before *first* has one from there on in its place."""
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
            continue  # the other side is not earlier
        if starts[1] is None or starts[1] < first:
            return False
        wide = {Scope.BLOCK} if need.scope is Scope.BLOCK else {Scope.BLOCK, Scope.WARP}
        if not any(number <= position[sides[1].name] and scope in wide for number, scope in barriers):
            return False
    return True
