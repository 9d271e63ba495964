"""Asynchronous copies: starts, commits of groups, and waits.

::

    start a; start b; ..; arrive a; arrive b   ->   start a; start b; commit; ..; wait

A group is committed directly behind the starts, in every iteration of the innermost loop that they share with arrivals.
Then at least as many groups are committed after the awaited one as the analysis has counted
(:mod:`polyloop.sync.async_copy`).  So commits and waits may be under no condition other than that of the whole loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from polyloop.codegen.device.entries import Copies
from polyloop.codegen.language import Language
from polyloop.codegen.scope import Scope
from polyloop.codegen.tree.c_expr import ADDRESS, Apply, Code, Unary
from polyloop.expr.nodes import array_name
from polyloop.frozen import replace
from polyloop.kernel.tree import Barrier, Group, Loop, Node, Run, Tree, runs
from polyloop.kernel.tree import Scope as BarrierScope
from polyloop.schedule.plan import AwaitCopy, Schedule, StartCopy, Statement

__all__ = [
    "group_text",
    "start_text",
    "waited_for",
    "with_copies",
    "without_barriers",
    "without_runs",
]


def without_runs(tree: Tree, dropped: Collection[str]) -> Tree:
    """Return *tree* without the statements *dropped*, and without loops and waits that have no others."""
    out: list[Node] = []
    for node in tree:
        match node:
            case Loop(iname, body):
                inner = without_runs(body, dropped)
                out += [Loop(iname, inner)] if any(True for _ in runs(inner)) else []
            case Run(name):
                out += [] if name in dropped else [node]
            case Barrier(group=Group() as group) if (names := group.arrivals | group.issued) and names <= set(dropped):
                pass
            case Barrier():
                out.append(node)
    return tuple(out)


def without_barriers(tree: Tree) -> Tree:
    """Return *tree* without derived barriers between threads; those in inner loops stay."""
    return tuple(node for node in tree if not isinstance(node, Barrier) or node.group is not None or node.name)


def waited_for(tree: Tree) -> Iterator[str]:
    """Yield the names of the arrivals that waits in *tree* replace."""
    for node in tree:
        if isinstance(node, Loop):
            yield from waited_for(node.body)
        elif isinstance(node, Barrier) and node.group is not None:
            yield from node.group.arrivals


def with_copies(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with commits and waits of asynchronous copies.

    A commit follows the starts of a group, and waits replace arrivals.  For a language without asynchronous copies, the
    starts are dropped, and arrivals become ordinary copies.
    """
    if not any(isinstance(s.action, StartCopy | AwaitCopy) for s in schedule.statements.values()):
        return schedule
    how = _without_starts if language.find(Copies) is None else _with_groups
    launches = tuple(replace(launch, tree=how(launch.tree, schedule.statements)) for launch in schedule.launches)
    return replace(schedule, launches=launches)


def _without_starts(tree: Tree, statements: Mapping[str, Statement]) -> Tree:
    return without_runs(tree, {name for name in runs(tree) if isinstance(statements[name].action, StartCopy)})


def _with_groups(tree: Tree, statements: Mapping[str, Statement]) -> Tree:
    """Return *tree* with commits and waits; a loop with starts that nothing awaits is followed by a wait for all."""
    out: list[Node] = []
    for node in _in_groups(tree, statements):
        out.append(node)
        actions = (statements[name].action for name in runs((node,)))
        if isinstance(node, Loop) and any(isinstance(a, StartCopy) and not a.is_awaited for a in actions):
            arrivals = frozenset(waited_for((node,)))
            out.append(Barrier(BarrierScope.THREAD, group=Group(0, arrivals)))
    return tuple(out)


def _in_groups(tree: Tree, statements: Mapping[str, Statement]) -> Tree:
    """Return *tree* with a commit after each node whose copies another one awaits, and with waits for the arrivals.

    If a loop has both the start of a copy and its arrival, the commit and the wait are placed in its body.
    """
    if not any(isinstance(statements[name].action, StartCopy | AwaitCopy) for name in runs(tree)):
        return tree
    steps = [_steps(node, statements) for node in tree]
    out: list[Node] = []
    for number, node in enumerate(tree):
        others = [entry for k, entry in enumerate(steps) if k != number]
        started = {array for starts, _ in others for array in starts}
        arrived = {array for _, arrivals in others for array in arrivals}
        starts, arrivals = steps[number]
        arriving = {name for array, name in arrivals.items() if array in started}
        if arriving:
            out.append(_wait(statements, arriving))
        out += [
            Loop(part.iname, _in_groups(part.body, statements)) if isinstance(part, Loop) else part
            for part in without_runs((node,), arriving)
        ]
        if arrived.intersection(starts):
            out.append(Barrier(BarrierScope.THREAD, group=Group()))
    return _joined(out)


def _steps(node: Node, statements: Mapping[str, Statement]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the starts and the arrivals of copies in a node: the statement of each array."""
    starts, arrivals = dict[str, str](), dict[str, str]()
    for name in runs((node,)):
        match statements[name].action:
            case StartCopy():
                starts[array_name(statements[name].lhs)] = name
            case AwaitCopy():
                arrivals[array_name(statements[name].lhs)] = name
            case _:
                pass
    return starts, arrivals


def _wait(statements: Mapping[str, Statement], arriving: Collection[str]) -> Barrier:
    actions = (statements[name].action for name in arriving)
    pending = min(action.pending for action in actions if isinstance(action, AwaitCopy))
    return Barrier(BarrierScope.THREAD, group=Group(pending, frozenset(arriving)))


def _joined(nodes: list[Node]) -> Tree:
    """Return *nodes* with neighbouring waits merged, and with one commit for groups with only starts in between."""
    out: list[Node] = []
    for node in nodes:
        last, before = _group(out, -1), _group(out, -2)
        group = node.group if isinstance(node, Barrier) else None
        if group is not None and group.arrivals and last is not None and last.arrivals:
            least = min(group.pending, last.pending)
            out[-1] = Barrier(BarrierScope.THREAD, group=Group(least, group.arrivals | last.arrivals))
            continue
        if group == before == Group() and not isinstance(out[-1], Barrier):
            del out[-2]
        out.append(node)
    return tuple(out)


def _group(nodes: list[Node], at: int) -> Group | None:
    node = nodes[at] if len(nodes) >= -at else None
    return node.group if isinstance(node, Barrier) else None


def group_text(scope: Scope, group: Group) -> str:
    """Return the statement that commits a group of copies, or waits for groups."""
    copies = scope.language.need(Copies)
    name = copies.wait if group.arrivals else copies.commit
    scope.define(name)
    return copies.waiting.format(name, pending=group.pending) if group.arrivals else f"{name}();"


def start_text(scope: Scope, target: Code, source: Code, size: int, condition: Code | None = None) -> Code | None:
    """Return the call that starts a copy of *size* bytes from one element to another, None if the size is not possible.

    With *condition*, it copies if that holds, and stores zeros otherwise.
    """
    copies = scope.language.find(Copies)
    if copies is None or size not in copies.starts:
        return None
    name = (copies.starts if condition is None else copies.fills)[size]
    scope.define(name)
    addresses = (Unary(ADDRESS, target), Unary(ADDRESS, source))
    return Apply(name, addresses if condition is None else (*addresses, condition))
