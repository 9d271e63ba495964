"""Device schedules as loop programs for one thread: axes become loops, barriers the places between loops.

The group axes enclose everything.  Each maximal barrier-free region is enclosed by loops over the local axes; a loop
that holds a barrier stays outside of them.  What a thread keeps privately from one region to the next must be kept
once per thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from polyloop.expr.rewrite import variables
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Barrier, Loop, Node, Tree, has_barrier, runs
from polyloop.schedule.plan import Launch, Statement

__all__ = ["SequentialTree", "sequential_tree"]


@dataclass(frozen=True)
class SequentialTree:
    """A tree in which axes are loops; ``expanded`` are the private temporaries to keep once per thread."""

    tree: Tree
    expanded: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class _Region:
    nodes: Tree
    in_barrier_loop: bool


def sequential_tree(launch: Launch, statements: Mapping[str, Statement]) -> SequentialTree:
    """Return *launch* as a loop program for one thread."""
    local = tuple(f"l.{n}" for n in reversed(range(len(launch.local_size))))
    private = {t.name for t in launch.temporaries if t.address_space is AddressSpace.PRIVATE}
    kept = _kept(tuple(_regions(launch.tree, False)), private, statements) if local else frozenset[str]()
    body = _with_threads(launch.tree, local, kept, statements)
    for axis in sorted(launch.group_axes):
        body = (Loop(axis, body),)
    return SequentialTree(body, dict.fromkeys(sorted(kept), local))


def _split(tree: Tree) -> Iterator[Tree]:
    """Yield barrier-free runs of nodes, and each loop that holds a barrier by itself."""
    pending: list[Node] = []
    for node in tree:
        holds = isinstance(node, Barrier) or has_barrier((node,))
        if not holds:
            pending.append(node)
            continue
        if pending:
            yield tuple(pending)
            pending = []
        if not isinstance(node, Barrier):
            yield (node,)
    if pending:
        yield tuple(pending)


def _regions(tree: Tree, in_barrier_loop: bool) -> Iterator[_Region]:
    for part in _split(tree):
        if has_barrier(part):
            (loop,) = part
            assert isinstance(loop, Loop), "only a loop can hold a barrier"
            yield from _regions(loop.body, True)
        else:
            yield _Region(part, in_barrier_loop)


def _with_threads(
    tree: Tree, local: tuple[str, ...], kept: frozenset[str], statements: Mapping[str, Statement]
) -> Tree:
    out: list[Node] = []
    for part in _split(tree):
        if has_barrier(part):
            (loop,) = part
            assert isinstance(loop, Loop), "only a loop can hold a barrier"
            out.append(Loop(loop.iname, _with_threads(loop.body, local, kept, statements)))
            continue
        names = tuple(runs(part))
        if any(_names(statements[name]) & kept for name in names):
            axes = local
        else:
            axes = tuple(axis for axis in local if any(axis in statements[name].dims for name in names))
        enclosed = part
        for axis in reversed(axes):
            enclosed = (Loop(axis, enclosed),)
        out += enclosed
    return tuple(out)


def _names(statement: Statement) -> frozenset[str]:
    """Return every name in a statement."""
    memo: dict[str, frozenset[str]] = statement.__dict__.setdefault("_names", {})
    found = memo.get("all")
    if found is None:
        parts = (statement.lhs, statement.rhs, *statement.predicates)
        found = memo["all"] = frozenset(statement.bounds).union(*(variables(part) for part in parts))
    return found


def _kept(regions: Sequence[_Region], private: set[str], statements: Mapping[str, Statement]) -> frozenset[str]:
    """Return the private temporaries whose values cross from one region to another, or back to the same one."""
    found: dict[str, list[_Region]] = {}
    for region in regions:
        names = frozenset[str]().union(*(_names(statements[name]) for name in runs(region.nodes)))
        for temporary in names & private:
            found.setdefault(temporary, []).append(region)
    return frozenset(
        temporary
        for temporary, where in found.items()
        if len(where) > 1 or (where[0].in_barrier_loop and not _is_begun(where[0], temporary, statements))
    )


def _is_begun(region: _Region, temporary: str, statements: Mapping[str, Statement]) -> bool:
    """Return whether the first statement of the region that mentions a temporary sets it."""
    first = next(name for name in runs(region.nodes) if temporary in _names(statements[name]))
    return _begins(statements[first], temporary)


def _begins(statement: Statement, temporary: str) -> bool:
    """Return whether a statement sets a scalar without using its old value."""
    return (
        isinstance(statement.lhs, p.Variable)
        and statement.lhs.name == temporary
        and statement.update is None
        and not statement.predicates
        and temporary not in variables(statement.rhs)
    )
