"""Copies for the next block of the grid that the same threads execute: the iterations that a loop is ahead of it.

::

    for (k = -2; k < n; ++k) {wait k; start k + 2; ..}; rest
    ->
    start 0; start 1
    for each block: {for (k = 0; k < n; ++k) {wait k; start k + 2; ..}; barrier; start 0 and 1 of the next block; rest}

The schedule has shown that the barrier is behind everything that uses the places of the copies
(:mod:`polyloop.schedule.turns`).  Rings go on from block to block: each start has its arrival in the same block of the
grid, and between an arrival and the next start into its slot there is that barrier, or one of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import islpy as isl

from polyloop.codegen.language import Language
from polyloop.errors import CodegenError, Diagnostic
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.kernel.tree import Barrier, Loop, Node, Run
from polyloop.poly.affine import Affine
from polyloop.poly.axes import is_thread_axis
from polyloop.schedule.copy_engine import AwaitStores, StartBox, StoreBox
from polyloop.schedule.plan import Launch, LoopForms, Schedule, Statement
from polyloop.schedule.turns import first_iterations

__all__ = ["with_starts_ahead"]

_SET: Final = isl.dim_type.set


def with_starts_ahead(schedule: Schedule, language: Language) -> Schedule:
    """Return *schedule* with the first copies of each launch apart, if they are to start ahead; for hosts as it is.

    Raises
    ------
    CodegenError
        ``not-ahead``.
    """
    if not language.has_axes or not any(launch.order.ahead for launch in schedule.launches):
        return schedule
    statements, forms = dict(schedule.statements), schedule.loops
    launches = list[Launch]()
    for launch in schedule.launches:
        loop = next((node for node in launch.tree if isinstance(node, Loop) and _starts(node, statements)), None)
        if launch.order.ahead and loop is not None:
            first = tuple(_first_copies(loop, _first(schedule, loop, statements), statements))
            ahead = replace(launch, turns=replace(launch.turns, ahead=first))
            launches.append(_with_late_stores(ahead, loop, statements))
            forms = _without_front(forms, loop.iname)
        else:
            launches.append(launch)
    return replace(schedule, launches=tuple(launches), statements=statements, loops=forms)


def _starts(loop: Loop, statements: Mapping[str, Statement]) -> list[str]:
    """Return the statements directly in *loop* that start copies."""
    return [
        node.name for node in loop.body if isinstance(node, Run) and isinstance(statements[node.name].action, StartBox)
    ]


def _first(schedule: Schedule, loop: Loop, statements: Mapping[str, Statement]) -> range:
    """Return the first iterations of *loop*, which have starts alone."""
    found = first_iterations(loop, _starts(loop, statements), statements)
    if found is None:
        note = f"the first iterations of '{loop.iname}', which have copies alone, are not known"
        hint = "let the loop begin at a number, or leave out ahead=True"
        problem = Diagnostic("not-ahead", "copies cannot start before the next turn", (note,), (hint,))
        raise CodegenError("generate_code", schedule.name, [problem])
    return found


def _first_copies(loop: Loop, numbers: range, statements: dict[str, Statement]) -> Iterator[Node]:
    """Yield the copies of the iterations *numbers*, and leave the others in their statements."""
    starts = {name: statements[name] for name in _starts(loop, statements)}
    for value in numbers:
        for name, statement in starts.items():
            made = _at(statement, loop.iname, value)
            if not made.domain.is_empty():
                made = replace(made, name=f"{name} ahead {value}")
                statements[made.name] = made
                yield Run(made.name)
    for name, statement in starts.items():
        later = statement.domain.lower_bound_val(_SET, statement.dims.index(loop.iname), numbers.stop)
        statements[name] = replace(statement, domain=later)


def _at(statement: Statement, iname: str, value: int) -> Statement:
    """Return the copies of *statement* for one value of *iname*."""
    start, position = statement.action, statement.dims.index(iname)
    assert isinstance(start, StartBox), f"'{statement.name}' starts a copy"
    domain = statement.domain.fix_val(_SET, position, value).project_out(_SET, position, 1)
    forms = {iname: Affine((), value)}

    def fixed(expression: Expression) -> Expression:
        return substitute(expression, {iname: value})

    pieces = tuple((fixed(element), tuple(form.substitute(forms) for form in at)) for element, at in start.pieces)
    action = replace(start, slot=fixed(start.slot), pieces=pieces)
    dims = tuple(dim for dim in statement.dims if dim != iname)
    return replace(
        statement, dims=dims, domain=domain, action=action, lhs=fixed(statement.lhs), rhs=fixed(statement.rhs)
    )


def _with_late_stores(launch: Launch, loop: Loop, statements: dict[str, Statement]) -> Launch:
    """Return *launch* with waits for late stores of boxes: before copies in *loop*, before the barrier, and at the end.

    Copies wait if they fill a place that is stored.
    """
    late = {name: statements[name] for name in sorted(launch.turns.late)}
    if not late:
        return launch
    for name, statement in late.items():
        assert isinstance(statement.action, StoreBox), f"'{name}' stores a box"
        statements[name] = replace(statement, action=replace(statement.action, is_late=True))
    pools = {t.name: t.pool or t.name for t in launch.temporaries}
    stored = {pools[array_name(statement.rhs)] for statement in late.values()}
    starts = [name for name in _starts(loop, statements) if pools[array_name(statements[name].lhs)] in stored]
    waits = {name: _awaiting(statements[name], f"{name} waits", statements) for name in starts[:1]}
    body = tuple(entry for node in loop.body for entry in (*_before(node, waits), node))
    last = next(iter(late.values()))
    threads = [dim for dim in last.dims if is_thread_axis(dim)]
    domain = last.domain
    for dim in reversed(last.dims):
        if dim not in threads:
            domain = domain.project_out(_SET, last.dims.index(dim), 1)
    alone = _awaiting(replace(last, dims=tuple(threads), domain=domain), f"{last.name} waits", statements)
    tree = list[Node]()
    for node in launch.tree:
        if isinstance(node, Barrier) and node.starts:
            tree.append(alone)
        tree.append(replace(node, body=body) if node is loop else node)
    return replace(launch, tree=tuple(tree), turns=replace(launch.turns, closing=(alone,)))


def _before(node: Node, waits: Mapping[str, Run]) -> Iterator[Run]:
    if isinstance(node, Run) and node.name in waits:
        yield waits[node.name]


def _awaiting(statement: Statement, name: str, statements: dict[str, Statement]) -> Run:
    """Return the wait for stores of boxes, for the instances of *statement*."""
    statements[name] = replace(statement, name=name, action=AwaitStores())
    return Run(name)


def _without_front(forms: LoopForms, iname: str) -> LoopForms:
    """Return *forms* without the peeled prologue of a loop."""
    slabs = {**forms.slabs, iname: (0, forms.slabs.get(iname, (0, 0))[1])}
    return replace(forms, slabs=slabs, fronts={name: front for name, front in forms.fronts.items() if name != iname})
