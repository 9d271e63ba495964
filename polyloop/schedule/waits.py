"""Synchronization report of a finished schedule: for each pair of conflicting accesses, the barrier between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from polyloop.frozen import replace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree
from polyloop.schedule.barrier import NO_MEETINGS, Meeting
from polyloop.schedule.collective import Collective
from polyloop.schedule.plan import Launch, Wait
from polyloop.sync.races import Need

__all__ = ["reuse_waits", "wait_kind", "waits", "with_reasons"]

Path = tuple[int | str, ...]

_REASONS: Final = {
    "RAW": "reads follow writes", "WAR": "writes follow reads", "WAW": "writes follow writes",
    "": "others used the storage before",
}  # fmt: skip
_WIDTH = {Scope.THREAD: -1, Scope.WARP: 0, Scope.BLOCK: 1, Scope.CLUSTER: 2, Scope.GRID: 3}


def waits(
    needs: Iterable[Need], launches: Sequence[Launch], meetings: Mapping[str, Meeting] = NO_MEETINGS
) -> tuple[Wait, ...]:
    """Return the waits between the sides of each of *needs* in *launches*, equal ones once, with the widest scope.

    Needs without a scope are races, which are reported elsewhere.  The statements *meetings* have a barrier inside.
    """
    homes = {name: number for number, launch in enumerate(launches) for name, _ in _paths(launch.tree)}
    known = [dict(_paths(launch.tree)) for launch in launches]
    found: dict[tuple[object, ...], Wait] = {}
    for need in needs:
        if need.scope is None:
            continue
        first, second = need.conflict.first, need.conflict.second
        one, other = homes[first.name], homes[second.name]
        ids = (first.lowered.instruction.id, second.lowered.instruction.id)
        by, number = "", None
        if need.conflict.loop in launches[one].hosts:
            by = f"the launches of each iteration of '{need.conflict.loop}' on the host end before the next begins"
        elif one == other - 1 and (axis := launches[other].turns.joins) is not None:
            by = f"blocks of '{launches[one].name}' along {axis} have arrived before '{launches[other].name}' begins"
        elif one < other:
            by = f"launch '{launches[one].name}' ends before '{launches[other].name}' begins"
        elif one == other:
            found_barrier = _barrier(launches[one].tree, known[one], need, meetings)
            by, number = found_barrier.by, found_barrier.number(launches[: one + 1])
        wait = Wait(need.array, *ids, need.conflict.loop, need.scope, by, number)
        key = (wait.array, wait.first, wait.second, wait.loop, wait.by)
        if key not in found or _WIDTH[found[key].scope] < _WIDTH[wait.scope]:
            found[key] = wait
    return tuple(found.values())


def reuse_waits(
    collectives: Mapping[str, Collective], users: Mapping[str, str], launches: Sequence[Launch],
    meetings: Mapping[str, Meeting],
) -> Iterator[Wait]:
    """Yield the waits between two uses of the shared arrays of collectives, in loops.

    Parameters
    ----------
    collectives
        Collective operations, by statement.
    users
        For each statement with a shared array, the id of its instruction.
    meetings
        Statements with a barrier inside.
    """
    for position, launch in enumerate(launches):
        for name, path in _paths(launch.tree):
            if name not in users:
                continue
            entry = collectives[name]
            loops = [place for place in path if isinstance(place, str) and place not in entry.apart]
            if entry.scratch is not None and loops:
                depth = path.index(loops[-1]) + 1
                block, own = _block(launch.tree, path[:depth]), path[depth]
                others = [number for number in range(len(block)) if number != own]
                by = _first_of(launch.tree, path[:depth], others, entry.scope, _passed_by(name, meetings))
                by = by if by.by else _further_inside(launch.tree, (path, path), depth, entry.scope)
                number = by.number(launches[: position + 1])
                yield Wait(entry.scratch, users[name], users[name], loops[-1], entry.scope, by.by, number)


def wait_kind(kernel: LoopKernel, array: str, first: str, second: str) -> str:
    """Return RAW, WAR or WAW; empty where two arrays share storage."""
    known = {instruction.id: instruction for instruction in kernel.instructions}
    if first not in known or second not in known or array not in kernel.arrays():
        return ""
    writes = [array in known[name].writes for name in (first, second)]
    return {(True, True): "WAW", (True, False): "RAW", (False, True): "WAR"}.get((writes[0], writes[1]), "")


def with_reasons(launches: Sequence[Launch], waits: Iterable[Wait], kernel: LoopKernel) -> tuple[Launch, ...]:
    """Return *launches* whose barriers say which accesses of other threads they wait for."""
    found: dict[int, dict[str, dict[str, None]]] = {}  # barrier -> array -> kinds
    for wait in waits:
        if wait.barrier is not None:
            kind = wait_kind(kernel, wait.array, wait.first, wait.second)
            found.setdefault(wait.barrier, {}).setdefault(wait.array, {})[_REASONS[kind]] = None
    numbers = count()

    def said(tree: Tree) -> Tree:
        return tuple(map(told, tree))

    def told(node: Node) -> Node:
        match node:
            case Loop(iname, body):
                return Loop(iname, said(body))
            case Barrier(name=name):
                arrays: dict[str, list[str]] = {}
                for array, reasons in found.get(next(numbers), {}).items():
                    arrays.setdefault(", ".join(reasons), []).append(array)
                why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in arrays.items())
                why = why or node.why
                return replace(node, why=why or ("" if name is None else f"{name}, of the kernel's text"))
        return node

    return tuple(replace(launch, tree=said(launch.tree)) for launch in launches)


@dataclass(frozen=True)
class _Found:
    """Description and place of what separates two accesses; ``place`` is that of a barrier in its launch."""

    by: str = ""
    place: Path | None = None

    def number(self, launches: Sequence[Launch]) -> int | None:
        """Return the number of the barrier among those of *launches*, of which the last one has it."""
        if self.place is None:
            return None
        before = sum(len([*_barriers(launch.tree)]) for launch in launches[:-1])
        return before + [*_barriers(launches[-1].tree)].index(self.place)


def _barriers(tree: Tree, prefix: Path = ()) -> Iterator[Path]:
    """Yield the place of each barrier, in the order of the text."""
    for number, node in enumerate(tree):
        if isinstance(node, Barrier):
            yield (*prefix, number)
        elif isinstance(node, Loop):
            yield from _barriers(node.body, (*prefix, number, node.iname))


def _paths(tree: Tree, prefix: Path = ()) -> Iterator[tuple[str, Path]]:
    """Yield each statement with its path of positions and loops, from the outside in; barriers count as positions."""
    for number, node in enumerate(tree):
        match node:
            case Run(name):
                yield name, (*prefix, number)
            case Loop(iname, body):
                yield from _paths(body, (*prefix, number, iname))


def _block(tree: Tree, path: Sequence[int | str]) -> Tree:
    """Return the block of *tree* at the end of *path*: the body of its last loop, or *tree* for an empty path."""
    for entry in path:
        if isinstance(entry, int):
            node = tree[entry]
            assert isinstance(node, Loop), "a path leads through loops"
            tree = node.body
    return tree


def _barrier(tree: Tree, paths: Mapping[str, Path], need: Need, meetings: Mapping[str, Meeting]) -> _Found:
    """Return the barrier between the sides of *need*, if there is one."""
    assert need.scope is not None, "a race has no barrier"
    first, second = paths[need.conflict.first.name], paths[need.conflict.second.name]
    loop = need.conflict.loop
    if loop is None:
        depth = next(n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    else:
        depth = first.index(loop) + 1
        if first[:depth] != second[:depth]:
            return _Found()
    block = _block(tree, first[:depth])
    a, b = first[depth], second[depth]
    assert isinstance(a, int), "a path alternates positions and loops"
    assert isinstance(b, int), "a path alternates positions and loops"
    behind, before = need.conflict.first.name, need.conflict.second.name
    sides = [(range(a + 1, b if loop is None else len(block)), _passed_by(behind, meetings)),
             (range(b) if loop is not None else range(a + 1, b), _passed_by(before, meetings))]  # fmt: skip
    tried = (_first_of(tree, first[:depth], near, need.scope, passed) for near, passed in sides)
    found = next((one for one in tried if one.by), _Found())
    if not found.by and loop is not None and not need.conflict.adjacent:  # there are whole iterations in between
        found = _first_of(tree, first[:depth], range(len(block)), need.scope)
    return found if found.by else _further_inside(tree, (first, second), depth, need.scope)


def _passed_by(name: str, meetings: Mapping[str, Meeting]) -> Mapping[str, Meeting]:
    """Return those of *meetings* that each iteration passes that executes the statement *name*."""
    return {statement: meeting for statement, meeting in meetings.items() if name in meeting.passed}


def _further_inside(tree: Tree, sides: tuple[Path, Path], depth: int, scope: Scope) -> _Found:
    """Return a barrier in inner loops: behind the first side, or before the second."""
    for side, path in enumerate(sides):
        for inner in range(depth + 2, len(path), 2):
            block, own = _block(tree, path[:inner]), path[inner]
            assert isinstance(own, int), "a path alternates positions and loops"
            candidates = [*range(own)] if side else [*range(own + 1, len(block))]
            found = _first_of(tree, path[:inner], candidates, scope)
            if found.by:
                return found
    return _Found()


def _first_of(
    tree: Tree, prefix: Path, candidates: Iterable[int], scope: Scope, meetings: Mapping[str, Meeting] = NO_MEETINGS
) -> _Found:
    """Return the first of the nodes *candidates* of a block that is a barrier for *scope*, if there is one."""
    block, loop = _block(tree, prefix), prefix[-1] if prefix else None
    for position in candidates:
        node = block[position]
        if isinstance(node, Barrier) and not node.opens and _WIDTH[node.scope] >= _WIDTH[scope]:
            return _Found(_shown(node, block, position, loop), (*prefix, position))
        met = meetings[node.name].scope if isinstance(node, Run) and node.name in meetings else None
        if isinstance(node, Run) and met is not None and _WIDTH[met] >= _WIDTH[scope]:
            return _Found(f"the {met.value} barrier within '{node.name}'")
    return _Found()


def _shown(barrier: Barrier, block: Tree, position: int, loop: int | str | None) -> str:
    what = f"the {barrier.scope.value} barrier" if barrier.name is None else f"the barrier '{barrier.name}'"
    where = "at its end"
    if position + 1 < len(block):
        following = block[position + 1]
        match following:
            case Run(name):
                where = f"before '{name}'"
            case Loop(iname):
                where = f"before loop '{iname}'"
            case Barrier():
                where = "before another barrier"
    if isinstance(loop, str):
        return f"{what} {where} in loop '{loop}'" if where != "at its end" else f"{what} at the end of loop '{loop}'"
    return f"{what} {where}" if where != "at its end" else f"{what} at the end"
