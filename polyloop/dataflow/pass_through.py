"""Copy instructions: the right-hand side is one read and nothing else.

They move elements between arrays and buffers, save and reload values across launches, and start asynchronous copies.
Dataflow traces a read through them to the write of the value (:func:`definitions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import islpy as isl
import pymbolic.primitives as p

from polyloop.dataflow.value_flow import is_exact, known_flow
from polyloop.errors import Diagnostic
from polyloop.expr.nodes import Expression, array_name
from polyloop.expr.printer import show
from polyloop.expr.rewrite import variables
from polyloop.kernel.instruction import Carry, CopyStep, Evaluation, Move, MoveRole
from polyloop.kernel.updates import NEUTRAL, Update, update_of
from polyloop.mapping.thread_mapping import Placed, Placement
from polyloop.poly.affine import affine_of
from polyloop.poly.budget import NoAnswer, looking_at
from polyloop.poly.sets import map_from_forms
from polyloop.program.ir import Access, Assign

__all__ = ["HINTS", "carrier_violations", "definitions", "is_carrier"]

HINTS: Final = ("report this: a transform may not change what is computed",)


def definitions(
    placement: Placement, reader: Placed, access: Access, places: isl.Map, passes: Callable[[Placed], bool]
) -> tuple[list[tuple[Placed, isl.Map]], isl.Set]:
    """Return the writers that a read sees, through statements that only pass a value on, and the places without one.

    Parameters
    ----------
    places
        ``{ place -> instance of the reader }``; so are the results, ``{ place -> instance of a writer }``.
    passes
        Predicate of the statements that pass on the one value that they read.

    Raises
    ------
    NoAnswer
        Accesses to an array on the way are not exact.
    """
    if not is_exact(placement, access.array):
        raise NoAnswer("cannot tell which write a read sees where data decides,", (access.array, reader))
    sources, initial = known_flow(placement, access.array).of(reader, access)
    looking_at(reader, *(source for source, _ in sources))
    found: list[tuple[Placed, isl.Map]] = []
    unwritten = places.intersect_range(initial).domain()
    for source, link in sources:
        there = places.apply_range(link)
        if not passes(source):
            found.append((source, there))
        elif not there.is_empty():
            (read,) = source.lowered.reads
            further, lost = definitions(placement, source, read, there, passes)
            found, unwritten = [*found, *further], unwritten.union(lost)
    return found, unwritten


def is_carrier(statement: Placed) -> bool:
    """Return True if *statement* is of a copy instruction: a move, a save or reload, or an asynchronous copy."""
    instruction = statement.lowered.instruction
    return instruction.step is CopyStep.START or isinstance(instruction.origin, Carry | Move)


def carrier_violations(placement: Placement, statement: Placed) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the statement of a copy instruction changes the value that it copies."""
    lowered = statement.lowered
    origin = lowered.instruction.origin
    if isinstance(origin, Move) and origin.role is MoveRole.START:
        yield from _begin_violations(placement, statement)
        return
    value = lowered.rhs
    if isinstance(origin, Move) and origin.role is MoveRole.ADD:
        update = _added(statement)
        value = None if update is None else update.operand
    is_read = isinstance(value, p.Variable | p.Subscript) and not lowered.predicates
    if not is_read or (isinstance(origin, Move) and not _is_moved(placement, statement, origin, value)):
        yield _not_carried(statement)


def _is_moved(placement: Placement, statement: Placed, origin: Move, value: Expression) -> bool:
    """Return True if a move is between a buffer and its array, at the element that the forms of its origin name."""
    element, other = statement.lowered.lhs, value
    if origin.role is MoveRole.LOAD:
        element, other = other, element
    if array_name(element) != origin.array or placement.program.kernel.buffers.get(array_name(other)) != origin.array:
        return False
    indices = element.index_tuple if isinstance(element, p.Subscript) else ()
    wanted = [origin.forms[str(number)].substitute(statement.forms) for number in range(len(origin.forms))]
    found = [None if (form := affine_of(index)) is None else form.substitute(statement.forms) for index in indices]
    if found == wanted:
        return True
    if None in found or len(found) != len(wanted):
        return False
    one, two = (map_from_forms(statement.domain, statement.dims, forms) for forms in (found, wanted))
    return bool(one.is_equal(two))


def _added(statement: Placed) -> Update | None:
    """Return the update by which a move adds a buffer to its element, None if its operation has no neutral element."""
    update = update_of(statement.lowered.lhs, statement.lowered.rhs)
    return None if update is None or update.operation not in NEUTRAL else update


def _begin_violations(placement: Placement, statement: Placed) -> Iterator[Diagnostic]:
    """Yield diagnostics for a collecting buffer that does not start neutral, or does more than collect updates."""
    buffer = statement.lowered.write.array
    uses = [s for s in placement.statements.values() if any(a.array == buffer for a in s.lowered.accesses)]
    for other in uses:
        origin = other.lowered.instruction.origin
        if not isinstance(origin, Move) or origin.role is not MoveRole.ADD:
            continue
        update = _added(other)
        if update is None or statement.lowered.rhs != NEUTRAL[update.operation]:
            yield _not_carried(statement)
            return
        for user in uses:
            if isinstance(user.lowered.part, Assign) and not isinstance(user.lowered.instruction.origin, Move):
                yield from _update_violations(user, buffer, update.operation)


def _update_violations(user: Placed, buffer: str, operation: str) -> Iterator[Diagnostic]:
    update = update_of(user.lowered.lhs, user.lowered.rhs)
    if update is None or update.operation != operation or buffer in variables(update.operand):
        instruction = user.lowered.instruction
        text = f"'{instruction.id}' would compute '{show(user.lowered.rhs)}', and '{buffer}' only collects updates"
        yield Diagnostic("expression-changed", text, hints=HINTS, sites=(instruction.site(),))


def _not_carried(statement: Placed) -> Diagnostic:
    instruction = statement.lowered.instruction
    return Diagnostic(
        "expression-changed",
        f"'{instruction.id}' would compute '{show(statement.lowered.rhs)}', and has to carry a value as it is",
        (_CARRIES[type(instruction.origin)],),
        HINTS,
        sites=(instruction.site(),),
    )


_CARRIES: Final[dict[type, str]] = {
    Move: "it moves elements between an array and its buffer",
    Carry: "it saves or reloads what is used in another launch",
    Evaluation: "it starts an asynchronous copy",
}
