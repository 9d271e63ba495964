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
from polyloop.expr.nodes import Expression
from polyloop.expr.rewrite import substitute
from polyloop.frozen import replace
from polyloop.kernel.tree import Loop, Node, Run, runs
from polyloop.poly.affine import Affine
from polyloop.poly.sets import constant_bounds
from polyloop.schedule.copy_engine import StartBox
from polyloop.schedule.plan import Launch, LoopForms, Schedule, Statement

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
            begin = _begin(schedule, loop, statements)
            first = tuple(_first_copies(loop, begin, statements))
            launches.append(replace(launch, turns=replace(launch.turns, ahead=first)))
            forms = _without_front(forms, loop.iname)
        else:
            launches.append(launch)
    return replace(schedule, launches=tuple(launches), statements=statements, loops=forms)


def _starts(loop: Loop, statements: Mapping[str, Statement]) -> list[str]:
    """Return the statements directly in *loop* that start copies."""
    return [
        node.name for node in loop.body if isinstance(node, Run) and isinstance(statements[node.name].action, StartBox)
    ]


def _begin(schedule: Schedule, loop: Loop, statements: Mapping[str, Statement]) -> int:
    """Return the first iteration of *loop* with other statements than starts."""
    starts = {*_starts(loop, statements)}
    least = [_least(statements[name], loop.iname) for name in runs(loop.body) if name not in starts]
    known = [number for number in least if number is not None]
    if not known or len(known) < len(least) or any(_least(statements[name], loop.iname) is None for name in starts):
        note = f"the first iterations of '{loop.iname}', which have copies alone, are not known"
        hint = "let the loop begin at a number, or leave out ahead=True"
        problem = Diagnostic("not-ahead", "copies cannot start before the next turn", (note,), (hint,))
        raise CodegenError("generate_code", schedule.name, [problem])
    return min(known)


def _least(statement: Statement, iname: str) -> int | None:
    return constant_bounds(statement.domain, statement.dims.index(iname))[0] if iname in statement.dims else None


def _first_copies(loop: Loop, begin: int, statements: dict[str, Statement]) -> Iterator[Node]:
    """Yield the copies of the iterations before *begin*, and leave the others in their statements."""
    starts = {name: statements[name] for name in _starts(loop, statements)}
    first = min(least for statement in starts.values() if (least := _least(statement, loop.iname)) is not None)
    for value in range(first, begin):
        for name, statement in starts.items():
            made = _at(statement, loop.iname, value)
            if not made.domain.is_empty():
                made = replace(made, name=f"{name} ahead {value}")
                statements[made.name] = made
                yield Run(made.name)
    for name, statement in starts.items():
        later = statement.domain.lower_bound_val(_SET, statement.dims.index(loop.iname), begin)
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


def _without_front(forms: LoopForms, iname: str) -> LoopForms:
    """Return *forms* without the peeled prologue of a loop."""
    slabs = {**forms.slabs, iname: (0, forms.slabs.get(iname, (0, 0))[1])}
    return replace(forms, slabs=slabs, fronts={name: front for name, front in forms.fronts.items() if name != iname})
