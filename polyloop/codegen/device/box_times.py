"""Times of copies by a copy engine: started as early as a body allows, waited for where what they brought is used.

::

    wait k; wait v; barrier; start k; q*k; softmax; start v; p*v
    ->
    wait k; barrier; start k; start v; q*k; softmax; wait v; p*v

A start moves ahead of nodes that do not use its tile, up to the barrier in front of them: behind that one no thread
uses what the place had before.  Each thread waits for itself, so a wait may move behind barriers, up to the first node
that uses the tile, if there is something to compute meanwhile.  A barrier stays between it and the next start into its
slot, so that no thread misses a phase.  Where threads have roles there is no barrier: the start is where a warp frees
the slot, which is another one than that of the wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from polyloop.codegen.language import Language
from polyloop.expr.nodes import array_name, targets_of
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Scope, Tree, runs
from polyloop.schedule.copy_engine import AwaitBox, EngineStep, StartBox
from polyloop.schedule.plan import Launch, Schedule, Statement

__all__ = ["mates_of", "with_box_times"]

_Mates: TypeAlias = Mapping[str, frozenset[str]]


def with_box_times(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with starts of boxes early, and waits late, in blocks that are launched one by one."""
    if not language.has_axes:
        return schedule
    launches = tuple(_launch(launch, schedule.statements) for launch in schedule.launches)
    return replace(schedule, launches=launches)


def _launch(launch: Launch, statements: Mapping[str, Statement]) -> Launch:
    has_boxes = any(isinstance(statements[name].action, StartBox) for name in runs(launch.tree))
    if not has_boxes or launch.order.persists:  # what starts ahead of the next turn has times of its own
        return launch
    mates = None if launch.turns.crew is None else mates_of(launch)
    return replace(launch, tree=_timed(launch.tree, statements, mates))


def mates_of(launch: Launch) -> _Mates:
    """Return each temporary of a launch with those that share its storage, itself too."""
    pools = {t.name: t.pool or t.name for t in launch.temporaries}
    return {name: frozenset(x for x, other in pools.items() if other == pool) for name, pool in pools.items()}


def _timed(tree: Tree, statements: Mapping[str, Statement], mates: _Mates | None) -> Tree:
    """Return *tree* with other times; *mates* are those of the launch if its threads have roles."""
    body: list[Node] = [Loop(n.iname, _timed(n.body, statements, mates)) if isinstance(n, Loop) else n for n in tree]
    for node in tuple(body):
        if isinstance(node, Run) and isinstance(statements[node.name].action, StartBox):
            _start_early(node, body, statements, mates)
    for node in tuple(body):
        if isinstance(node, Run) and isinstance(statements[node.name].action, AwaitBox):
            _wait_late(node, body, statements, mates)
    return tuple(body)


def _start_early(start: Run, body: list[Node], statements: Mapping[str, Statement], mates: _Mates | None) -> None:
    """Move a start ahead, up to a barrier or another start; with roles, up to the last use of its storage."""
    tile, place = array_name(statements[start.name].lhs), body.index(start)
    others = frozenset({tile}) if mates is None else mates[tile]
    first = place
    while first and not _is_barrier(body[first - 1]) and not _uses(body[first - 1], others, statements):
        if _is_step(body[first - 1], statements):
            break
        first -= 1
    if first and any(_computes(node, statements) for node in body[first:place]) and (
        mates is not None or _is_barrier(body[first - 1]) or _is_step(body[first - 1], statements)
    ):
        body.insert(first, body.pop(place))


def _wait_late(wait: Run, body: list[Node], statements: Mapping[str, Statement], mates: _Mates | None) -> None:
    """Move a wait to the first node that uses its tile."""
    tile, place = array_name(statements[wait.name].lhs), body.index(wait)
    others = [n for n in range(place + 1, len(body)) if _uses(body[n], frozenset({tile}), statements)]
    starts = [n for n in others if _is_step(body[n], statements)]
    first = next((n for n in others if n not in starts), None)
    if first is None or len(starts) != 1 or not any(_computes(node, statements) for node in body[place + 1 : first]):
        return
    (start,) = starts
    between = body[first:start] if start > first else [*body[first:], *body[:place], *body[place + 1 : start]]
    if mates is not None or any(map(_is_barrier, between)):
        body.insert(first - 1, body.pop(place))


def _is_barrier(node: Node) -> bool:
    return isinstance(node, Barrier) and node.scope is Scope.BLOCK


def _is_step(node: Node, statements: Mapping[str, Statement]) -> bool:
    """Return True if a node is a step of a copy engine."""
    return isinstance(node, Run) and isinstance(statements[node.name].action, EngineStep)


def _uses(node: Node, tiles: frozenset[str], statements: Mapping[str, Statement]) -> bool:
    return any(not tiles.isdisjoint(_names(statements[name])) for name in runs((node,)))


def _computes(node: Node, statements: Mapping[str, Statement]) -> bool:
    """Return True if a node does more than to set constants, to wait and to copy."""
    return not _is_step(node, statements) and any(variables(statements[name].rhs) for name in runs((node,)))


def _names(statement: Statement) -> frozenset[str]:
    parts = (*targets_of(statement.lhs), statement.rhs, *statement.predicates)
    return frozenset[str]().union(*(variables(part) for part in parts))
