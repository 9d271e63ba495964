"""Copy propagation of private scalars: if a variable is dead after a copy of it, the two are merged.

::

    s = ..; t = s; b[i] = t   ->   s = ..; b[i] = s

Scans in tiles pass values on from sum to scan to scan, each in a variable of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pymbolic.primitives as p

from polyloop.expr.rewrite import substitute, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.tree import Loop, Node, Run, Tree, runs
from polyloop.schedule.plan import Assign, Launch, Statement

__all__ = ["without_copies"]


@dataclass(frozen=True)
class _Copy:
    """``later = earlier``, a statement of the tree; both are scalars of one thread."""

    statement: str
    later: str
    earlier: str


def without_copies(
    launches: Sequence[Launch], statements: Mapping[str, Statement], passed: Collection[str]
) -> tuple[tuple[Launch, ...], dict[str, Statement]]:
    """Return the program with one variable for each chain of copies that has a variable of *passed*."""
    found = dict(statements)
    return tuple(_joined(launch, found, passed) for launch in launches), found


def _joined(launch: Launch, statements: dict[str, Statement], passed: Collection[str]) -> Launch:
    while (copy := _first_copy(launch, statements, passed)) is not None:
        kept, gone = (copy.later, copy.earlier) if copy.later in passed else (copy.earlier, copy.later)
        tree = _without(launch.tree, copy.statement)
        launch = replace(launch, tree=tree, temporaries=tuple(t for t in launch.temporaries if t.name != gone))
        for name in statements.keys() & set(runs(tree)):
            statements[name] = _renamed(statements[name], {gone: p.Variable(kept)})
    return launch


def _renamed(statement: Statement, names: Mapping[str, p.Variable]) -> Statement:
    return replace(
        statement,
        lhs=substitute(statement.lhs, names),
        rhs=substitute(statement.rhs, names),
        predicates=tuple(substitute(predicate, names) for predicate in statement.predicates),
    )


def _first_copy(launch: Launch, statements: Mapping[str, Statement], passed: Collection[str]) -> _Copy | None:
    scalars = {
        t.name: t.dtype for t in launch.temporaries if t.address_space is AddressSpace.PRIVATE and not t.shape
    }
    uses = {name: _names(statements[name]) for name in runs(launch.tree) if name in statements}
    for body in _bodies(launch.tree):
        for position, node in enumerate(body):
            copy = _copy(statements[node.name]) if isinstance(node, Run) and node.name in statements else None
            if copy is None or {copy.later, copy.earlier}.isdisjoint(passed):
                continue
            if copy.later not in scalars or scalars.get(copy.earlier) != scalars[copy.later]:
                continue
            before, after = set(runs(body[: position + 1])), set(runs(body[position:]))
            if _used_in(copy.earlier, uses) <= before and _used_in(copy.later, uses) <= after:
                return copy
    return None


def _copy(statement: Statement) -> _Copy | None:
    names = isinstance(statement.lhs, p.Variable) and isinstance(statement.rhs, p.Variable)
    if not isinstance(statement.action, Assign) or not names or statement.predicates or statement.bounds:
        return None
    return _Copy(statement.name, statement.lhs.name, statement.rhs.name)


def _names(statement: Statement) -> frozenset[str]:
    parts = (statement.lhs, statement.rhs, *statement.predicates)
    return frozenset[str]().union(statement.bounds, *map(variables, parts))


def _used_in(name: str, uses: Mapping[str, frozenset[str]]) -> set[str]:
    return {statement for statement, names in uses.items() if name in names}


def _bodies(tree: Tree) -> Iterator[Tree]:
    yield tree
    for node in tree:
        if isinstance(node, Loop):
            yield from _bodies(node.body)


def _without(tree: Tree, name: str) -> Tree:
    out: list[Node] = []
    for node in tree:
        if isinstance(node, Loop):
            out.append(Loop(node.iname, _without(node.body, name)))
        elif not (isinstance(node, Run) and node.name == name):
            out.append(node)
    return tuple(out)
