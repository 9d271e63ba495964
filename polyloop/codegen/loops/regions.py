"""Sequential form of device schedules: axes become loops, barriers divide loops (loop fission).

::

    for each thread: {A; barrier; B}   ->   for l.0: A;   for l.0: B

The group axes are the outermost loops.  Each maximal barrier-free region is enclosed by loops over the local axes; a
loop with a barrier stays outside of them.  A private value that is live from one region to the next is stored once per
thread.  Collective operations become loops over the threads, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pymbolic.primitives as p

from polyloop.codegen.names import Names
from polyloop.expr.nodes import array_name
from polyloop.expr.operations import has_terms, neutral_element
from polyloop.expr.rewrite import variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Barrier, Loop, Node, Run, Tree, has_barrier, runs
from polyloop.mapping.collective_shape import Kind
from polyloop.memo import memoised
from polyloop.poly.axes import thread_axis
from polyloop.schedule.plan import Assign, Launch, Schedule, Statement, Update
from polyloop.schedule.storage import Storage

__all__ = ["SequentialTree", "sequential_tree"]


@dataclass(frozen=True)
class SequentialTree:
    """A tree in which axes are loops.

    Attributes
    ----------
    expanded
        Private temporaries to keep once per thread, with the thread axes.
    statements
        Statements that replace collective ones.
    temporaries
        Variables of these statements.
    """

    tree: Tree
    expanded: Mapping[str, tuple[str, ...]]
    statements: Mapping[str, Statement] = field(default_factory=dict)
    temporaries: tuple[Storage, ...] = ()
    ahead: tuple[str, ...] = ()
    """Statements ahead of the loops over blocks."""


@dataclass(frozen=True)
class _Region:
    nodes: Tree
    in_barrier_loop: bool


def sequential_tree(launch: Launch, schedule: Schedule, names: Names) -> SequentialTree:
    """Return *launch* of *schedule* as a loop program for one thread; *names* gives new names."""
    statements = schedule.statements
    local = tuple(thread_axis(n) for n in reversed(range(len(launch.local_size))))
    dtypes = {t.name: t.dtype for t in launch.temporaries}
    together: dict[str, SequentialTree] = {}
    for name, around in _meetings(launch.tree, schedule):
        dtype = dtypes[array_name(statements[name].lhs)]
        axes = [axis for axis in local if axis not in around]
        together[name] = _together(statements[name], dtype, axes, names.fresh("total"))
    private = {t.name for t in launch.temporaries if t.address_space is AddressSpace.PRIVATE}
    regions = tuple(_regions(launch.tree, False))
    kept = _kept(regions, private, statements) if local else frozenset[str]()
    expanded = {name: _own_axes(name, local, regions, schedule) for name in sorted(kept)}
    body = _Threads(schedule, local, expanded, together).tree(launch.tree, frozenset())
    for axis in sorted(launch.group_axes):
        body = (Loop(axis, body),)
    body = (*(Run(name) for entry in together.values() for name in entry.ahead), *body)
    made = {name: part for entry in together.values() for name, part in entry.statements.items()}
    totals = tuple(total for entry in together.values() for total in entry.temporaries)
    return SequentialTree(body, expanded, made, totals)


def _meetings(
    tree: Tree, schedule: Schedule, around: frozenset[str] = frozenset()
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the collective statements, each with the axes of loops around it over warps (see :func:`_apart`)."""
    for node in tree:
        if isinstance(node, Loop):
            yield from _meetings(node.body, schedule, around | _apart(node, schedule))
        elif isinstance(node, Run) and schedule.statements[node.name].collective is not None:
            yield node.name, around


def _apart(loop: Loop, schedule: Schedule) -> frozenset[str]:
    """Return the axes along which warps run *loop*, which has barriers, independently of one another."""
    return schedule.apart((loop,)) if has_barrier((loop,)) else frozenset()


def _own_axes(
    name: str, local: tuple[str, ...], regions: Sequence[_Region], schedule: Schedule
) -> tuple[str, ...]:
    """Return the axes along which each thread keeps a value of its own of a temporary.

    A bound variable is kept only along the axes on which its value may differ, if each region that sets it does so
    before it reads it.
    """
    differing = schedule.uniformity.varying.get(name)
    if differing is None:
        return local
    for region in regions:
        writes = (schedule.statements[s].lhs for s in runs(region.nodes))
        is_set = any(isinstance(lhs, p.Variable) and lhs.name == name for lhs in writes)
        if is_set and not _is_begun(region, name, schedule.statements):
            return local
    return tuple(axis for axis in local if axis in differing)



def _together(statement: Statement, dtype: np.dtype[np.generic], local: Sequence[str], total: str) -> SequentialTree:
    """Return a collective operation as two loops over threads, which combine values and distribute the result."""
    assert statement.collective is not None, f"'{statement.name}' is no collective"
    operation, kind = statement.collective.operation, statement.collective.kind
    if kind is not Kind.COMBINE:
        return _one_by_one(statement, dtype, local, total)
    variable = p.Variable(total)
    plain = replace(statement, action=Assign())
    neutral = neutral_element(operation, dtype)
    some = has_terms(operation, dtype, statement.lhs)
    parts = {
        f"{statement.name}_begin": replace(plain, lhs=variable, rhs=neutral),
        f"{statement.name}_collect": replace(
            plain, lhs=variable, rhs=statement.lhs, action=Update(operation), predicates=() if some is None else (some,)
        ),
        f"{statement.name}_share": replace(plain, rhs=variable),
    }
    begin, collect, share = (Run(name) for name in parts)
    groups = [axis for axis in local if axis not in statement.collective.across]
    members = [axis for axis in local if axis in statement.collective.across]
    tree = _enclosed((begin, *_enclosed((collect,), members), *_enclosed((share,), members)), groups)
    named = {name: replace(part, name=name) for name, part in parts.items()}
    return SequentialTree(tree, {}, named, (Storage(total, dtype, (), AddressSpace.PRIVATE),))


def _one_by_one(statement: Statement, dtype: np.dtype[np.generic], local: Sequence[str], total: str) -> SequentialTree:
    """Return a scan over threads as a loop over them: each gets the running total, and adds its own value."""
    assert statement.collective is not None, f"'{statement.name}' is no collective"
    operation, across = statement.collective.operation, statement.collective.across
    variable, own = p.Variable(total), p.Variable(f"{total}_own")
    plain = replace(statement, action=Assign())
    begin = replace(plain, name=f"{statement.name}_begin", lhs=variable, rhs=neutral_element(operation, dtype))
    keep = replace(plain, name=f"{statement.name}_keep", lhs=own, rhs=statement.lhs)
    add = replace(plain, name=f"{statement.name}_add", lhs=variable, rhs=own, action=Update(operation))
    give = replace(plain, name=f"{statement.name}_give", rhs=variable)
    if statement.collective.chain is not None:
        return _block_by_block((begin, keep, give, add), statement, dtype, local)
    steps = (keep, give, add) if statement.collective.kind is Kind.EXCLUSIVE else (keep, add, give)
    groups = [axis for axis in local if axis not in across]
    members = [axis for axis in local if axis in across]
    inner = _enclosed(tuple(Run(step.name) for step in steps), members)
    tree = _enclosed((Run(begin.name), *inner), groups)
    storages = tuple(Storage(name.name, dtype, (), AddressSpace.PRIVATE) for name in (variable, own))
    return SequentialTree(tree, {}, {step.name: step for step in (begin, *steps)}, storages)


def _block_by_block(
    steps: tuple[Statement, Statement, Statement, Statement], statement: Statement, dtype: np.dtype[np.generic],
    local: Sequence[str],
) -> SequentialTree:  # fmt: skip
    """Return a scan over blocks in their order; all threads of a block have one value, which is added once."""
    begin, keep, give, add = steps
    assert statement.collective is not None, f"'{statement.name}' is no collective"
    keeping, giving = (_enclosed((Run(step.name),), local) for step in (keep, give))
    exclusive = statement.collective.kind is Kind.EXCLUSIVE
    tree = (*keeping, *giving, Run(add.name)) if exclusive else (*keeping, Run(add.name), *giving)
    named = {step.name: step for step in steps}
    storages = tuple(Storage(array_name(step.lhs), dtype, (), AddressSpace.PRIVATE) for step in (begin, keep))
    return SequentialTree(tree, {}, named, storages, (begin.name,))


def _enclosed(tree: Tree, axes: Sequence[str]) -> Tree:
    """Return *tree* in loops over *axes*, the first of them outermost."""
    for axis in reversed(axes):
        tree = (Loop(axis, tree),)
    return tree


def _split(tree: Tree) -> Iterator[Tree]:
    """Yield maximal barrier-free sequences of nodes, and each other node with a barrier inside by itself."""
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
        if has_barrier(part) and isinstance(part[0], Loop):
            loop = part[0]
            yield from _regions(loop.body, True)
        else:
            yield _Region(part, in_barrier_loop)


@dataclass(frozen=True)
class _Threads:
    """Transformation of a tree that puts loops over thread axes around its regions."""

    schedule: Schedule
    local: tuple[str, ...]
    expanded: Mapping[str, tuple[str, ...]]
    together: Mapping[str, SequentialTree]

    def tree(self, tree: Tree, around: frozenset[str]) -> Tree:
        """Return *tree* with loops over threads; loops over the axes *around* enclose it already."""
        out: list[Node] = []
        for part in _split(tree):
            if not has_barrier(part):
                out += _enclosed(part, self._axes(part, around))
                continue
            (node,) = part
            if isinstance(node, Loop):
                apart = _apart(node, self.schedule) - around
                loop = Loop(node.iname, self.tree(node.body, around | apart))
                out += _enclosed((loop,), [axis for axis in self.local if axis in apart])
            else:
                assert isinstance(node, Run), "a barrier is where parts end"
                out += self.together[node.name].tree
        return tuple(out)

    def _axes(self, part: Tree, around: frozenset[str]) -> list[str]:
        """Return the axes of the threads that execute *part*."""
        needed: set[str] = set()
        for name in runs(part):
            statement = self.schedule.statements[name]
            needed.update(statement.dims, *(self.expanded.get(used, ()) for used in _names(statement)))
        return [axis for axis in self.local if axis in needed and axis not in around]


@memoised
def _names(statement: Statement) -> frozenset[str]:
    """Return every name in a statement."""
    parts = (statement.lhs, statement.rhs, *statement.predicates)
    return frozenset(statement.bounds).union(*(variables(part) for part in parts))


def _kept(regions: Sequence[_Region], private: set[str], statements: Mapping[str, Statement]) -> frozenset[str]:
    """Return the private temporaries that are live from one region to another, or from one iteration to the next."""
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
    """Return True if the first statement of the region that mentions a temporary sets it."""
    first = next(name for name in runs(region.nodes) if temporary in _names(statements[name]))
    return _begins(statements[first], temporary)


def _begins(statement: Statement, temporary: str) -> bool:
    """Return True if a statement sets a scalar without using its old value."""
    return (
        isinstance(statement.lhs, p.Variable)
        and statement.lhs.name == temporary
        and statement.is_assignment
        and not statement.predicates
        and temporary not in variables(statement.rhs)
    )
