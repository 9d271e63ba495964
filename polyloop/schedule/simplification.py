"""Simplification of scans in tiles: copy propagation of private scalars, and reductions of one term as assignments.

::

    s = ..; t = s; b[i] = t            ->   s = ..; b[i] = s
    acc = s; acc += x[i]; b[i] = acc   ->   b[i] = s + x[i]

Scans in tiles pass values on from sum to scan to scan, each in a variable of its own: if a variable is dead after a
copy of it, the two are merged.  They combine the sum of the tiles before with each result of the tile's own scan, which
is a reduction of one term with an initial value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pymbolic.primitives as p

from polyloop.expr.nodes import array_name, targets_of
from polyloop.expr.rewrite import substitute, variables
from polyloop.frozen import replace
from polyloop.kernel.arrays import AddressSpace
from polyloop.kernel.kernel import LoopKernel
from polyloop.kernel.tree import Loop, Node, Run, Tree, runs
from polyloop.schedule.plan import Assign, Launch, Statement, Update

__all__ = ["simplified"]

_NODES: Final = {"sum": p.Sum, "product": p.Product}
_DTypes = Mapping[str, "np.dtype[np.generic] | None"]


def simplified(
    kernel: LoopKernel, launches: tuple[Launch, ...], statements: dict[str, Statement]
) -> tuple[tuple[Launch, ...], dict[str, Statement]]:
    """Return the program of *kernel* with fewer variables and statements, if it has partial results."""
    if not kernel.partials:
        return launches, statements
    found = dict(statements)
    dtypes = {name: array.dtype for name, array in kernel.arrays().items()}
    launches = tuple(_without_copies(launch, found, kernel.partials) for launch in launches)
    return tuple(_with_terms_at_once(launch, found, dtypes) for launch in launches), found


# {{{ copies


@dataclass(frozen=True)
class _Copy:
    """``later = earlier``, a statement of the tree; both are scalars of one thread."""

    statement: str
    later: str
    earlier: str


def _without_copies(launch: Launch, statements: dict[str, Statement], passed: Collection[str]) -> Launch:
    while (copy := _first_copy(launch, statements, passed)) is not None:
        kept, gone = (copy.later, copy.earlier) if copy.later in passed else (copy.earlier, copy.later)
        tree = _without(launch.tree, {copy.statement})
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
    """Return a copy of a scalar that is not used after it, to one that is not used before it; None if there is none.

    Both have the same type, and one of them is in *passed*.
    """
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


def _used_in(name: str, uses: Mapping[str, frozenset[str]]) -> set[str]:
    return {statement for statement, names in uses.items() if name in names}


def _bodies(tree: Tree) -> Iterator[Tree]:
    yield tree
    for node in tree:
        if isinstance(node, Loop):
            yield from _bodies(node.body)


# }}}
# {{{ terms


@dataclass(frozen=True)
class _Term:
    """Neighbours ``acc = start``, ``acc += term`` and ``target = acc``, by their names."""

    begin: str
    update: str
    assign: str


def _with_terms_at_once(launch: Launch, statements: dict[str, Statement], dtypes: _DTypes) -> Launch:
    """Return *launch* with each reduction of one term computed in the assignment of its result.

    *statements* are updated in place.
    """
    private = {t.name: t.dtype for t in launch.temporaries}
    for term in list(_terms(launch.tree, statements)):
        begin, update, assign = (statements[name] for name in (term.begin, term.update, term.assign))
        total, target = array_name(begin.lhs), array_name(assign.lhs)
        users = {name for name in runs(launch.tree) if name in statements and total in _names(statements[name])}
        read = variables(begin.rhs) | variables(update.rhs)
        same_type = private[total] == private.get(target, dtypes.get(target))
        if users != {term.begin, term.update, term.assign} or target in read or not same_type:
            continue
        assert isinstance(update.action, Update), f"'{term.update}' is no update"
        whole = replace(assign, rhs=_NODES[update.action.operation.name]((begin.rhs, update.rhs)))
        statements[term.assign] = whole
        tree = _without(launch.tree, {term.begin, term.update})
        launch = replace(launch, tree=tree, temporaries=tuple(t for t in launch.temporaries if t.name != total))
    return launch


def _terms(tree: Tree, statements: Mapping[str, Statement]) -> Iterator[_Term]:
    """Yield the init, update and use of each reduction of one term, which follow each other in *tree*."""
    for number, node in enumerate(tree):
        if isinstance(node, Loop):
            yield from _terms(node.body, statements)
        three = [_only(following, statements) for following in tree[number : number + 3]]
        if len(three) == 3 and None not in three and len({inames for inames, _ in filter(None, three)}) == 1:
            begin, update, assign = (statement for _, statement in filter(None, three))
            if _is_term(begin, update, assign):
                yield _Term(begin.name, update.name, assign.name)


def _only(node: Node, statements: Mapping[str, Statement]) -> tuple[tuple[str, ...], Statement] | None:
    """Return the statement that *node* consists of, with the loops around it alone; None if there are more."""
    inames: tuple[str, ...] = ()
    while isinstance(node, Loop) and len(node.body) == 1:
        inames, node = (*inames, node.iname), node.body[0]
    return (inames, statements[node.name]) if isinstance(node, Run) and node.name in statements else None


def _is_term(begin: Statement, update: Statement, assign: Statement) -> bool:
    """Return True if three statements are the init, the only update and the use of one reduction."""
    three = (begin, update, assign)
    if not isinstance(begin.action, Assign) or not isinstance(assign.action, Assign):
        return False
    if not isinstance(update.action, Update) or update.action.product is not None:
        return False
    operation = update.action.operation
    if operation.name not in _NODES or operation.fields or operation.combine:
        return False
    alike = begin.lhs == update.lhs == assign.rhs and isinstance(begin.rhs, p.Variable | p.Subscript)
    same = all((s.dims, s.predicates, s.bounds, s.fast) == (begin.dims, begin.predicates, begin.bounds, begin.fast)
               for s in three)  # fmt: skip
    return alike and same and all(begin.domain.is_equal(s.domain) for s in (update, assign))


def _names(statement: Statement) -> frozenset[str]:
    parts = (*targets_of(statement.lhs), statement.rhs, *statement.predicates)
    return frozenset[str]().union(statement.bounds, *map(variables, parts))


def _without(tree: Tree, names: set[str]) -> Tree:
    """Return *tree* without the statements *names*, and without the loops that have no others."""
    out: list[Node] = []
    for node in tree:
        if isinstance(node, Loop):
            if body := _without(node.body, names):
                out.append(Loop(node.iname, body))
        elif not (isinstance(node, Run) and node.name in names):
            out.append(node)
    return tuple(out)


# }}}
